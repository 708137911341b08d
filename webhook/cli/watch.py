"""`genguard watch`: fights that no webhook sees, found by watching objects."""

import asyncio
import time
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Final

import click
import msgspec

from genguard.detection.detection import Detection
from genguard.detection.finding import Finding, Severity
from genguard.objects.served import Served, UnknownTargetError, find
from genguard.objects.shown import json_line
from genguard.replay import as_row
from genguard.review_setup import ReviewOptions, ReviewSetup
from genguard.versions import SENT_TO_NO_WEBHOOK, Versions
from webhook.cli.errors import carry_out, one_line_errors
from webhook.cli.options import CONTEXT, KUBECONFIG, OUTPUT, examples
from webhook.cli.output import tell
from webhook.cluster.connection import connected, default_kubeconfig
from webhook.cluster.discovery import discover
from webhook.cluster.following import follow_versions
from webhook.cluster.rest import Rest
from webhook.cluster.watch import Collection
from webhook.serve.flags import duration
from webhook.tasks.supervisor import Supervisor

_TICK: Final = 1.0
_LATELY_SECONDS: Final = 60.0
"""A watch that has gone well for so long has only been begun again."""
_LONGEST_HOURS: Final = 8_760


@click.command(
    epilog=examples(
        ("Fights over webhook configurations and admission policies", "genguard watch"),
        ("Over Services and ConfigMaps as well", "genguard watch services configmaps"),
    ),
)
@click.option(
    "--timeout",
    "seconds",
    type=duration(_LONGEST_HOURS),
    metavar="DURATION",
    help="How long to watch.  [default: until interrupted]",
)
@click.option("-n", "--namespace", metavar="NAME", help="Of kinds in namespaces.  [default: all]")
@KUBECONFIG
@CONTEXT
@OUTPUT
@click.argument("kinds", nargs=-1, metavar="[KIND...]")
def watch(*, kinds: tuple[str, ...], output: str, **flags: Any) -> None:
    """Find who fights over objects by watching them. Nothing is registered.

    KIND is as for kubectl: services, widgets.example.org. Without one, and besides those that are
    given, webhook configurations and admission policies are watched: the API server sends writes of
    these to no webhook. Needed are the rights to get, list and watch, and nothing else.

    A watch does not show users. Who is named is a field manager, and likely at most. A finding is
    printed when it begins, when its severity changes and when it is resolved.

    The exit code is 0 at the end of --timeout, 1 when the cluster refuses, 2 when the command line
    is wrong, 130 when interrupted.
    """
    with one_line_errors():
        carry_out(_run(kinds, is_json=output == "json", **flags))


async def _run(
    kinds: Sequence[str],
    *,
    seconds: float | None,
    namespace: str | None,
    kubeconfig: str | None,
    context: str | None,
    is_json: bool,
) -> None:
    setup = ReviewSetup(ReviewOptions())
    detection = Detection(compares_all=True)
    versions = Versions(lambda: setup.dependencies.engine, detection.see_version)
    async with connected(kubeconfig or default_kubeconfig(), context) as api:
        rest = Rest(api)
        watched = [*_chosen(kinds, await discover(rest))]
        paths = {one: one.path(namespace or "" if one.namespaced else "") for one in watched}
        for one, path in paths.items():
            await _check_rights(rest, path, one.kind)
        supervisor = Supervisor()
        troubles = _Troubles()
        following = {
            f"watch {one}": partial(
                follow_versions,
                str(one),
                Collection(rest, partial(_at, path), one.kind),
                versions,
                supervisor,
                partial(troubles.begin, one),
                on_current=partial(troubles.end, one),
            )
            for one, path in paths.items()
        }
        tell(f"watching {', '.join(map(str, watched))}; ^C ends it")
        printed: dict[str, tuple[Severity, str]] = {}
        ends = float("inf") if seconds is None else time.monotonic() + seconds
        async with supervisor.running(following):
            while time.monotonic() < ends:
                await asyncio.sleep(_TICK)
                detection.settle(time.time())
                for found in _news(detection.findings(), printed):
                    line = msgspec.to_builtins(found)
                    click.echo(json_line(line) if is_json else as_row(line))
        for one in watched:
            if reason := troubles.of(one):
                raise click.ClickException(f"{one} was not watched all the time: {reason}")
        if not printed:
            tell("no fight was seen")


class _Troubles:
    """Which kinds are not watched, and why; what a list shows alone is no fight."""

    def __init__(self) -> None:
        self._last: Final[dict[Served, tuple[float, str]]] = {}
        self._current: Final[set[Served]] = set()

    def begin(self, one: Served, reason: str) -> None:
        """Note that a kind is not watched."""
        tell(f"{one} is not watched: {reason}; trying again")
        self._last[one] = time.monotonic(), reason
        self._current.discard(one)

    def end(self, one: Served) -> None:
        """Note that all objects of a kind were listed, and that its watch begins."""
        self._current.add(one)

    def of(self, one: Served) -> str:
        """Return why a kind is not watched, or was not lately; "" where all is well."""
        if one not in self._current and one not in self._last:
            return "the API server has not listed it in time"
        at, reason = self._last.get(one, (0.0, ""))
        is_well = one in self._current and time.monotonic() - at > _LATELY_SECONDS
        return "" if is_well else reason


async def _check_rights(rest: Rest, path: str, kind: str) -> None:
    """Say at once what may not be read. Raises RefusedError."""
    await rest.try_list(path, kind=kind)
    async with rest.stream(path, watch="true", timeoutSeconds="1"):
        pass


def _chosen(kinds: Iterable[str], served: Sequence[Served]) -> Iterator[Served]:
    """Yield what is to be watched: those that are given, and the usual ones that are served.

    Raises UnknownTargetError for a kind that is not served, or cannot be watched.
    """
    given = [find(kind, served) for kind in kinds]
    for one in given:
        if not one.watchable:
            raise UnknownTargetError(f"{one} cannot be watched: the API server has no watch of it")
    known = {str(one) for one in given}
    yield from given
    first = {str(one): one for one in reversed(served)}
    usual = (name for name in SENT_TO_NO_WEBHOOK if name in first and name not in known)
    yield from (first[name] for name in usual)


async def _at(path: str) -> str:
    return path


def _news(
    findings: Iterable[Finding], printed: dict[str, tuple[Severity, str]]
) -> Iterator[Finding]:
    """Yield the findings of which another severity or state was printed last, or none."""
    for one in findings:
        known = one.severity, one.state
        is_news = one.severity is not Severity.INFO or one.id in printed
        if is_news and printed.get(one.id) != known:
            printed[one.id] = known
            yield one

"""`genguard watch`: fights that no webhook sees, found by watching objects."""

import asyncio
import math
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
from webhook.cli.errors import carry_out
from webhook.cli.options import OUTPUT, Access, asks_cluster, verb
from webhook.cli.output import tell
from webhook.cluster.discovery import discover
from webhook.cluster.following import see_versions
from webhook.cluster.watch import Change, ChangeKind, Collection, follow
from webhook.server.flags import duration
from webhook.tasks.clock import CLOCK
from webhook.tasks.supervisor import Supervisor

_TICK: Final = 1.0
_LATELY_SECONDS: Final = 60.0
"""A watch that has gone well for so long has only been begun again."""
_NOT_LISTED: Final = "the API server has not listed it in time"
_LONGEST_HOURS: Final = 8_760


@verb()
@click.option("--timeout", "seconds", type=duration(_LONGEST_HOURS), metavar="DURATION")
@click.option("-n", "--namespace", metavar="NAME")
@asks_cluster
@OUTPUT
@click.argument("kinds", nargs=-1, metavar="[KIND...]")
def watch(*, kinds: tuple[str, ...], output: str, **flags: Any) -> None:
    """Find who fights over objects by watching them. Nothing is registered."""
    carry_out(_run(kinds, is_json=output == "json", **flags))


async def _run(
    kinds: Sequence[str],
    *,
    seconds: float | None,
    namespace: str | None,
    access: Access,
    is_json: bool,
) -> None:
    setup = ReviewSetup(ReviewOptions())
    detection = Detection()
    versions = Versions(lambda: setup.dependencies.engine, detection.see_version)
    async with access.connected() as rest:
        watched = [*_chosen(kinds, await discover(rest))]
        paths = {one: one.path(namespace or "" if one.namespaced else "") for one in watched}
        for one, path in paths.items():
            await rest.try_list(path, kind=one.kind)  # says at once what may not be read
            async with rest.stream(path, watch="true", timeoutSeconds="1"):
                pass
        supervisor = Supervisor()
        # Why each is not watched, or was not lately, and until when that counts.
        troubles = dict.fromkeys(watched, (math.inf, _NOT_LISTED))

        def begin(one: Served, reason: str) -> None:
            tell(f"{one} is not watched: {reason}; trying again")
            troubles[one] = math.inf, reason

        def see(one: Served, change: Change) -> None:
            see_versions(str(one), versions, supervisor, change)
            if change.what is ChangeKind.CAUGHT_UP:
                _, reason = troubles[one]
                lately = 0.0 if reason == _NOT_LISTED else _LATELY_SECONDS
                troubles[one] = time.monotonic() + lately, reason

        following = {
            f"watch {one}": partial(
                follow,
                Collection(rest, path, one.kind).changes,
                partial(see, one),
                partial(begin, one),
            )
            for one, path in paths.items()
        }
        tell(f"watching {', '.join(map(str, watched))}; ^C ends it")
        printed: dict[str, tuple[Severity, str]] = {}
        ends = float("inf") if seconds is None else time.monotonic() + seconds
        async with supervisor.running(following):
            while time.monotonic() < ends:
                await asyncio.sleep(_TICK)
                now = CLOCK.now()
                detection.ledger.tell_time(now, CLOCK.ahead)
                detection.settle(now)
                for found in _news(detection.findings(), printed):
                    line = msgspec.to_builtins(found)
                    click.echo(json_line(line) if is_json else as_row(line))
        for one, (until, reason) in troubles.items():
            if until > time.monotonic():
                raise click.ClickException(f"{one} was not watched all the time: {reason}")
        if not printed:
            tell("no fight was seen")


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

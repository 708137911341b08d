"""`genguard watch`: fights that no webhook sees, found by watching objects."""

import asyncio
import math
import time
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Final

import click
import msgspec

from genguard.detection.detection import Detection
from genguard.detection.finding import Finding, Severity
from genguard.objects.served import Served, UnknownTargetError, by_name, find
from genguard.objects.shown import few
from genguard.replay import as_row
from genguard.review_setup import ReviewOptions, ReviewSetup
from genguard.versions import NEVER_WATCHED, SENT_TO_NO_WEBHOOK, Versions
from webhook.cli.errors import carry_out
from webhook.cli.options import OUTPUT, Access, asks_cluster, in_namespaces, verb
from webhook.cli.output import object_line, tell
from webhook.cluster.cluster_watch import see_versions
from webhook.cluster.discovery import discover
from webhook.cluster.rest import RefusedError, Rest
from webhook.cluster.watch import Change, ChangeKind, Collection, keep_watching
from webhook.server.flags import duration
from webhook.tasks.clock import CLOCK
from webhook.tasks.supervisor import Supervisor

_TICK: Final = 1.0
_LATELY_SECONDS: Final = 60.0
"""A watch that began again less than so long ago counts as one with a gap."""
_NOT_LISTED: Final = "the API server has not listed it in time"
_LONGEST_HOURS: Final = 8_760


@verb()
@click.option("--all", "everything", is_flag=True)
@click.option("--at-rest", is_flag=True)
@click.option("--timeout", "seconds", type=duration(_LONGEST_HOURS), metavar="DURATION")
@in_namespaces
@asks_cluster
@OUTPUT
@click.argument("kinds", nargs=-1, metavar="[KIND...]")
def watch(*, kinds: tuple[str, ...], everything: bool, output: str, **flags: Any) -> None:
    """Find who fights over objects by watching them. Nothing is registered."""
    if kinds and everything:
        raise click.UsageError("--all watches every kind: leave out KIND")
    carry_out(_run(kinds, everything=everything, is_json=output == "json", **flags))


async def _run(
    kinds: Sequence[str],
    *,
    everything: bool,
    at_rest: bool,
    seconds: float | None,
    namespace: str | None,
    access: Access,
    is_json: bool,
) -> None:
    printed: dict[str, tuple[Severity, str]] = {}
    async with access.connected() as rest:
        served = await discover(rest)
        chosen = None if everything else [*_chosen(kinds, served)]
        watched = fights(rest, served, chosen, namespace or "", seconds, at_rest=at_rest)
        async for detection in watched:
            for found in _to_print(detection.findings(), printed):
                line = msgspec.to_builtins(found)
                click.echo(object_line(line) if is_json else as_row(line))
    if not printed:
        tell("no fight was seen")


async def fights(
    rest: Rest,
    served: Sequence[Served],
    chosen: Sequence[Served] | None,
    namespace: str,
    seconds: float | None,
    *,
    at_rest: bool = False,
) -> AsyncIterator[Detection]:
    """Watch kinds, and yield each second what detects fights; for ever without `seconds`.

    chosen   the kinds; without them every one that changes, but for those that may not be read
    at_rest  nobody should write any more: see Detection

    Raises RefusedError for a chosen kind that may not be read, and click.ClickException at the end
    for one that was not watched all the time.
    """
    setup = ReviewSetup(ReviewOptions())
    detection = Detection(at_rest=at_rest)
    versions = Versions(lambda: setup.dependencies.engine, detection.see_version)
    first = by_name(kind for kind in served if kind.watchable)
    every = [kind for name, kind in first.items() if name not in NEVER_WATCHED]
    watched = every if chosen is None else chosen
    paths = {kind: kind.path(namespace if kind.namespaced else "") for kind in watched}
    answers = await asyncio.gather(*(_refusal(rest, kind, at) for kind, at in paths.items()))
    refused = {kind: why for kind, why in zip(paths, answers, strict=True) if why}
    if refused and (chosen is not None or refused.keys() == paths.keys()):
        raise next(iter(refused.values()))
    if refused:
        tell(f"not watched, since they may not be read: {few(list(map(str, refused)))}")
    paths = {kind: path for kind, path in paths.items() if kind not in refused}
    supervisor = Supervisor()
    # Why each is not watched, or was not lately, and until when that counts.
    troubles = dict.fromkeys(paths, (math.inf, _NOT_LISTED))

    def begin(kind: Served, reason: str) -> None:
        tell(f"{kind} is not watched: {reason}; trying again")
        troubles[kind] = math.inf, reason

    def see(kind: Served, change: Change) -> None:
        see_versions(str(kind), versions, supervisor, change)
        if change.what is ChangeKind.CAUGHT_UP:
            _, reason = troubles[kind]
            lately = 0.0 if reason == _NOT_LISTED else _LATELY_SECONDS
            troubles[kind] = time.monotonic() + lately, reason

    changes = {kind: Collection(rest, path, kind.kind).changes for kind, path in paths.items()}
    watches = {
        f"watch {kind}": partial(keep_watching, asked, partial(see, kind), partial(begin, kind))
        for kind, asked in changes.items()
    }
    what = f"{len(paths)} kinds" if chosen is None else ", ".join(map(str, paths))
    tell(f"watching {what}{'; ^C ends it' if seconds is None else f' for {seconds:g} s'}")
    ends = math.inf if seconds is None else time.monotonic() + seconds
    async with supervisor.running(watches):
        is_over = False
        while not is_over:
            await asyncio.sleep(_TICK)
            now = CLOCK.now()
            detection.ledger.tell_time(now, CLOCK.ahead)
            detection.resolve_quiet(now)
            is_over = time.monotonic() >= ends
            yield detection
    for kind, (until, reason) in troubles.items():
        if until > time.monotonic():
            message = f"{kind} was not watched all the time: {reason}"
            if chosen is not None:
                raise click.ClickException(message)
            tell(message)


async def _refusal(rest: Rest, kind: Served, path: str) -> RefusedError | None:
    """Return why a collection may not be listed and watched, if so."""
    try:
        await rest.try_list(path, kind=kind.kind)
        async with rest.stream(path, watch="true", timeoutSeconds="1"):
            return None
    except RefusedError as error:
        return error


def _chosen(kinds: Iterable[str], served: Sequence[Served]) -> Iterator[Served]:
    """Yield what is to be watched: those that are given, and the usual ones that are served.

    Raises UnknownTargetError for a kind that is not served, or cannot be watched.
    """
    given = [find(kind, served) for kind in kinds]
    for kind in given:
        if not kind.watchable:
            raise UnknownTargetError(f"{kind} cannot be watched: the API server has no watch of it")
    known = {str(kind) for kind in given}
    yield from given
    first = by_name(served)
    usual = (name for name in SENT_TO_NO_WEBHOOK if name in first and name not in known)
    yield from (first[name] for name in usual)


def _to_print(
    findings: Iterable[Finding], printed: dict[str, tuple[Severity, str]]
) -> Iterator[Finding]:
    """Yield the findings that are new, or whose severity or state was printed otherwise."""
    for finding in findings:
        known = finding.severity, finding.state
        is_printed = finding.severity is not Severity.INFO or finding.id in printed
        if is_printed and printed.get(finding.id) != known:
            printed[finding.id] = known
            yield finding

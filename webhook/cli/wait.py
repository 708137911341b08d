"""`genguard wait`: waits until objects have reached a goal, one never will, or time is up."""

import asyncio
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from http import HTTPStatus
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import click

from genguard.objects.served import Served, UnknownTargetError
from genguard.objects.shown import printable
from genguard.status.targets import RequestedTarget, WatchTarget, target_of_manifest
from genguard.status.wait_goal import (
    BadGoalError,
    Goal,
    WaitProgress,
    WaitState,
    WaitTracker,
    parse_goals,
)
from webhook.cli.errors import one_line_errors, told_unread
from webhook.cli.files import MAX_LINE, FileObjects
from webhook.cli.options import FILENAME_HELP, RECURSIVE, asks_cluster, examples
from webhook.cli.output import Tell
from webhook.cli.rules import RULES, judging
from webhook.cli.targets import Targets, asked_by, connected_to, try_list
from webhook.serve.flags import duration

if TYPE_CHECKING:
    from webhook.cli.following import CulpritWatch, Following, Snapshot
    from webhook.cluster.rest import Rest

_TICK: Final = 1.0
"""Seconds between two looks at the objects, and at least between two lines of output."""

_MOST_TOLD: Final = 5
_STUCK_SECONDS: Final = 3.0
"""A wait of this length may be stuck: the server is asked who is to blame."""


class Ending(IntEnum):
    """How a wait ends: the exit code."""

    REACHED = 0
    FAILED = 1
    TIMED_OUT = 3


class _Waiting:
    """Waits, and tells a line when the reason for waiting changes, and one at the end."""

    def __init__(self, targets: Targets, goals: tuple[Goal, ...], seconds: float) -> None:
        self._targets: Final = targets
        self._goals: Final = goals
        self._goal: Final = " and ".join(goal.text for goal in goals)
        self._seconds: Final = seconds
        self._end: Final = time.monotonic() + seconds
        self._progress: Final = _Progress(_tell)

    async def run(self) -> Ending:
        """Raises NoClusterError, UnknownTargetError, RefusedError, NoServerError or UNREACHED."""
        async with connected_to(self._targets) as rest:
            resolved = await self._resolve(rest)
            if resolved is None:
                return self._time_out("")
            kinds, found = resolved
            async with self._targets.followed(rest, kinds, found, _tell) as (objects, culprits):
                return await self._follow(objects, WaitTracker(found, self._goals), culprits)

    async def _resolve(self, rest: "Rest") -> tuple[list[Served], list[WatchTarget]] | None:
        """The kinds that are served, and the objects that are waited for; None when time is up.

        A custom resource may be waited for before its definition is there; what may not be read
        is not waited for.
        """
        from webhook.cluster.discovery import discover  # noqa: PLC0415
        from webhook.cluster.rest import RefusedError  # noqa: PLC0415

        asked = self._targets.asked
        while True:
            try:
                kinds = await discover(rest)
                found = [self._targets.resolve(kinds, one) for one in asked]
                for one in found:
                    await try_list(rest, one)
            except UnknownTargetError as error:
                if any(goal.is_deletion for goal in self._goals):
                    raise
                self._progress.tell(f"waiting: {error}")
            except RefusedError as error:
                if not error.is_passing and error.status != HTTPStatus.NOT_FOUND:
                    raise
                self._progress.tell(f"waiting: {error}")
            else:
                return kinds, found
            if self._remaining <= 0:
                return None
            await asyncio.sleep(min(_TICK / 2, self._remaining))

    async def _follow(
        self, objects: "Following", tracker: WaitTracker, culprits: "CulpritWatch"
    ) -> Ending:
        begun = time.monotonic()
        waiting: list[WaitProgress] = []
        snapshot: Snapshot | None = None
        while self._remaining > 0:
            snapshot = await objects.next_snapshot(min(_TICK, self._remaining))
            if snapshot is None:
                continue
            every = tracker.update(snapshot.roots, snapshot.there)
            failed = [one for one in every if one.state is WaitState.FAILED]
            waiting = [one for one in every if one.state is WaitState.WAITING]
            if failed:
                _ = await culprits.now()
                _tell(f"failed: {_listed(failed, _blamed(failed, snapshot, culprits))}")
                return Ending.FAILED
            # Neither is known for sure without what may not be read.
            refused = {**snapshot.unread, **snapshot.unwatched} if waiting else snapshot.unread
            if refused:
                _tell(f"failed: {told_unread(refused)}: {_listed(waiting or every)}")
                return Ending.FAILED
            if not waiting:
                _tell(f"reached {self._goal}: {_listed(every)}")
                await self._tell_open(snapshot, culprits)
                return Ending.REACHED
            if time.monotonic() - begun >= _STUCK_SECONDS:
                culprits.look()
            first = _first(waiting, _blamed(waiting[:1], snapshot, culprits))
            self._progress.tell(f"waiting for {self._goal}: {first}")
        if culprits.known is None and waiting:
            _ = await culprits.now()
        return self._time_out(_listed(waiting, _blamed(waiting, snapshot, culprits)))

    async def _tell_open(self, snapshot: "Snapshot", culprits: "CulpritWatch") -> None:
        """Say whether findings are open about what is well, if --server was given."""
        from webhook.cli.following import open_findings  # noqa: PLC0415

        known = await culprits.now() if self._targets.server.server else None
        if known and (number := known.count_open(snapshot.roots)):
            _tell(open_findings(number))

    def _time_out(self, lacking: str) -> Ending:
        text = f"timed out after {self._seconds:g} s"
        _tell(f"{text}: {lacking}" if lacking else text)
        return Ending.TIMED_OUT

    @property
    def _remaining(self) -> float:
        return self._end - time.monotonic()


class _Progress:
    """Prints a line when it differs from the last one, at most one a second."""

    def __init__(self, tell: Tell) -> None:
        self._tell: Final = tell
        self._told = ""
        self._at = -_TICK

    def tell(self, text: str) -> None:
        now = time.monotonic()
        if text != self._told and now - self._at >= _TICK:
            self._tell(text)
            self._told, self._at = text, now


def _blamed(
    stuck: Iterable[WaitProgress], snapshot: "Snapshot | None", culprits: "CulpritWatch"
) -> Mapping[str, str]:
    """Return who is to blame, in a few words, by uid of what is stuck."""
    if culprits.known is None or snapshot is None:
        return {}
    nodes = {node.assessment.view.uid: node for root in snapshot.roots for node in root.walk()}
    found = {one.uid: culprits.known.of_tree(nodes[one.uid]) for one in stuck if one.uid in nodes}
    return {uid: str(named[0]) for uid, named in found.items() if named}


def _first(waiting: Sequence[WaitProgress], blamed: Mapping[str, str]) -> str:
    more = f" (and {len(waiting) - 1} more objects)" if len(waiting) > 1 else ""
    return f"{_with_blame(waiting[0], blamed)}{more}"


def _with_blame(one: WaitProgress, blamed: Mapping[str, str]) -> str:
    return f"{one}; blamed: {blamed[one.uid]}" if one.uid in blamed else str(one)


def _listed(
    tracker: Sequence[WaitProgress], blamed: Mapping[str, str] = MappingProxyType({})
) -> str:
    texts = [_with_blame(one, blamed) for one in tracker[:_MOST_TOLD]]
    more = len(tracker) - _MOST_TOLD
    return "; ".join([*texts, f"and {more} more"] if more > 0 else texts)


def _goals(_: click.Context, __: click.Parameter, texts: tuple[str, ...]) -> tuple[Goal, ...]:
    try:
        return parse_goals(texts)
    except BadGoalError as error:
        raise click.BadParameter(str(error)) from error


@click.command(
    epilog=examples(
        (
            "Until a Deployment and all that it owns are ready and settled",
            "genguard wait deploy/web -n shop",
        ),
        ("Until everything that was just applied is", "genguard wait -f manifests/ --timeout 10m"),
        ("Until an object is gone, as kubectl wait", "genguard wait pod/web-0 --for=delete"),
    ),
)
@click.option(
    "--for",
    "goals",
    multiple=True,
    default=("ready", "settled"),
    show_default=True,
    metavar="GOAL",
    callback=_goals,
    help="ready, settled, health=green, reconciled (settled at the generation of now or a later "
    "one) or reconciled=N; condition=TYPE[=STATUS] and delete as in kubectl. Repeat it to wait for "
    "several at once.",
)
@click.option(
    "--timeout",
    "seconds",
    default="5m",
    show_default=True,
    metavar="DURATION",
    type=duration(24),
    help="How long to wait: 30s, 1m30s, up to 24h.",
)
@click.option(
    "-f",
    "--filename",
    "files",
    multiple=True,
    metavar="FILE|FOLDER|URL|-",
    help="Wait for the objects that are named there, as kubectl apply -f has made them. It is "
    f"{FILENAME_HELP}.",
)
@RECURSIVE
@RULES
@MAX_LINE
@asks_cluster
def wait(words: tuple[str, ...], *, rules: Path | None, **flags: Any) -> None:
    """Wait until objects are ready and settled, and tell what they lack meanwhile.

    Several objects are waited for until all are there at the same moment. What does not exist yet
    is waited for, its kind included. Each object counts with everything that it owns. For what is
    stuck, a genguard in the cluster, or of --server, names who is to blame.

    The exit code is 0 when all is reached, 1 when an object has failed for good: past its progress
    deadline, ended badly, Stalled, being deleted; or it could not be asked. 2 when the command line
    is wrong, 3 when time is up.
    """
    objects = FileObjects(
        flags.pop("files"), flags.pop("max_line"), recursive=flags.pop("recursive")
    )
    asked = _asked(words, objects, selector=flags["selector"])
    numbered = [goal for goal in flags["goals"] if goal.generation is not None]
    if numbered and (len(asked) > 1 or not asked[0].name):
        raise click.UsageError(f"--for {numbered[0].text} is about one object: give KIND/NAME")
    goals, seconds = flags.pop("goals"), flags.pop("seconds")
    with judging(rules) as judge, one_line_errors():
        ending = asyncio.run(_Waiting(Targets.of(asked, judge, **flags), goals, seconds).run())
    sys.exit(ending)


def _asked(words: tuple[str, ...], objects: FileObjects, *, selector: str) -> list[RequestedTarget]:
    if bool(words) == objects.are_given:
        raise click.UsageError("give either KIND/NAME, KIND -l SELECTOR or -f FILE")
    if words:
        return asked_by(words, selector)
    if selector:
        raise click.UsageError("the objects of a file are all waited for: leave out -l")
    found = [target_of_manifest(document) for document in objects]
    named = [one for one in found if one is not None]
    if objects.unread or len(named) < len(found) or not named:
        raise click.ClickException("not every object of the files has a kind and a name")
    return named


def _tell(text: str) -> None:
    click.echo(printable(text))

"""`genguard wait`: waits until objects have reached a goal, one never will, or time is up."""

import asyncio
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from http import HTTPStatus
from typing import Any, Final

import click

from webhook.cli.errors import one_line_errors
from webhook.cli.files import FileObjects
from webhook.cli.following import Following, Tell, following, memories
from webhook.cli.options import MAX_LINE, asks_cluster, namespace_of
from webhook.cluster.connection import connected, default_kubeconfig
from webhook.cluster.discovery import discover
from webhook.cluster.rest import RefusedError, Rest
from webhook.flags import duration
from webhook.objects.served import Served, UnknownTargetError
from webhook.objects.shown import printable
from webhook.status.targets import (
    RequestedTarget,
    WatchTarget,
    parse_targets,
    resolve_targets,
    target_of_manifest,
)
from webhook.status.wait_goal import (
    BadGoalError,
    Goal,
    WaitProgress,
    WaitState,
    WaitTracker,
    parse_goal,
)

_TICK: Final = 1.0
"""Seconds between two looks at the objects, and at least between two lines of output."""

_MOST_TOLD: Final = 5


class Ending(IntEnum):
    """How a wait ends: the exit code."""

    REACHED = 0
    FAILED = 1
    TIMED_OUT = 3


@dataclass(frozen=True, slots=True)
class WaitOptions:
    """The flags of wait."""

    kubeconfig: str
    context: str | None
    asked: tuple[RequestedTarget, ...]
    namespace: str
    selector: str
    server: str | None
    goals: tuple[Goal, ...]
    seconds: float

    @property
    def goal(self) -> str:
        """The goals in the words of the command line."""
        return " and ".join(goal.text for goal in self.goals)


async def _wait(options: WaitOptions, tell: Tell) -> Ending:
    """Wait, and print a line when the reason for waiting changes, and one at the end.

    Raises NoClusterError, UnknownTargetError, RefusedError, NoServerError or one of UNREACHED.
    """
    async with connected(options.kubeconfig, options.context) as api:
        return await _Waiting(Rest(api), options, tell).run()


class _Waiting:
    def __init__(self, rest: Rest, options: WaitOptions, tell: Tell) -> None:
        self._rest: Final = rest
        self._options: Final = options
        self._tell: Final = tell
        self._end: Final = time.monotonic() + options.seconds

    async def run(self) -> Ending:
        resolved = await self._resolve()
        if resolved is None:
            return self._time_out("")
        kinds, found = resolved
        server, within = self._options.server, self._options.namespace
        known = await memories(server, within) if server else {}
        async with following(self._rest, kinds, found, self._tell, known) as objects:
            return await self._follow(objects, WaitTracker(found, self._options.goals))

    async def _resolve(self) -> tuple[list[Served], list[WatchTarget]] | None:
        """The kinds that are served, and the objects that are waited for; None when time is up.

        A custom resource may be waited for before its definition is there; what may not be read
        is not waited for.
        """
        options = self._options
        progress = _Progress(self._tell)
        while True:
            try:
                kinds = await discover(self._rest)
                found = resolve_targets(options.asked, kinds, options.namespace, options.selector)
                for one in found:
                    await self._rest.get(
                        one.served.path(one.namespace), limit="1", **one.list_parameters
                    )
            except UnknownTargetError as error:
                progress.tell(f"waiting: {error}")
            except RefusedError as error:
                if not error.is_passing and error.status != HTTPStatus.NOT_FOUND:
                    raise
                progress.tell(f"waiting: {error}")
            else:
                return kinds, found
            if self._remaining <= 0:
                return None
            await asyncio.sleep(min(_TICK / 2, self._remaining))

    async def _follow(self, objects: Following, tracker: WaitTracker) -> Ending:
        progress = _Progress(self._tell)
        waiting: list[WaitProgress] = []
        while self._remaining > 0:
            sight = await objects.sight(min(_TICK, self._remaining))
            if sight is None:
                continue
            every = tracker.update(sight.roots, sight.there)
            failed = [one for one in every if one.state is WaitState.FAILED]
            waiting = [one for one in every if one.state is WaitState.WAITING]
            if failed:
                self._tell(f"failed: {_listed(failed)}")
                return Ending.FAILED
            if not waiting:
                self._tell(f"reached {self._options.goal}: {_listed(every)}")
                return Ending.REACHED
            progress.tell(f"waiting for {self._options.goal}: {_first(waiting)}")
        return self._time_out(_listed(waiting))

    def _time_out(self, lacking: str) -> Ending:
        text = f"timed out after {self._options.seconds:g} s"
        self._tell(f"{text}: {lacking}" if lacking else text)
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


def _first(waiting: Sequence[WaitProgress]) -> str:
    more = f" (and {len(waiting) - 1} more objects)" if len(waiting) > 1 else ""
    return f"{waiting[0]}{more}"


def _listed(tracker: Sequence[WaitProgress]) -> str:
    texts = [str(one) for one in tracker[:_MOST_TOLD]]
    more = len(tracker) - _MOST_TOLD
    return "; ".join([*texts, f"and {more} more"] if more > 0 else texts)


def _goals(_: click.Context, __: click.Parameter, texts: tuple[str, ...]) -> tuple[Goal, ...]:
    try:
        return tuple(map(parse_goal, texts))
    except BadGoalError as error:
        raise click.BadParameter(str(error)) from error


@click.command()
@click.option(
    "--for",
    "goals",
    multiple=True,
    default=("ready", "settled"),
    show_default=True,
    metavar="GOAL",
    callback=_goals,
    help="ready, settled, health=green, reconciled (settled at the generation of now or a later "
    "one) or reconciled=N. Repeat it to wait for several at once.",
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
    metavar="FILE|-",
    help="Wait for the objects that a file names, as kubectl apply -f has made them.",
)
@MAX_LINE
@asks_cluster
def wait(words: tuple[str, ...], **flags: Any) -> None:
    """Wait until objects are ready and settled, and tell what they lack meanwhile.

    Several objects are waited for until all are there at the same moment. What does not exist yet
    is waited for, its kind included. Each object counts with everything that it owns.

    The exit code is 0 when all is reached, 1 when an object has failed for good: past its progress
    deadline, ended badly, Stalled, being deleted; or it could not be asked. 2 when the command line
    is wrong, 3 when time is up.
    """
    asked = _asked(words, flags.pop("files"), flags.pop("max_line"), selector=flags["selector"])
    numbered = [goal for goal in flags["goals"] if goal.generation is not None]
    if numbered and (len(asked) > 1 or not asked[0].name):
        raise click.UsageError(f"--for {numbered[0].text} is about one object: give KIND/NAME")
    with one_line_errors():
        ending = _run(tuple(asked), **flags)
    sys.exit(ending)


def _asked(
    words: tuple[str, ...], files: tuple[str, ...], max_line: int, *, selector: str
) -> list[RequestedTarget]:
    if bool(words) == bool(files):
        raise click.UsageError("give either KIND/NAME, KIND -l SELECTOR or -f FILE")
    if not files:
        try:
            asked = parse_targets(words)
        except UnknownTargetError as error:
            raise click.UsageError(str(error)) from error
        if selector and any(one.name for one in asked):
            raise click.UsageError("an object is chosen by its name or by -l, not by both")
        return asked
    if selector:
        raise click.UsageError("the objects of a file are all waited for: leave out -l")
    objects = FileObjects(files, max_line)
    found = [target_of_manifest(document) for document in objects]
    named = [one for one in found if one is not None]
    if objects.unread or len(named) < len(found) or not named:
        raise click.ClickException("not every object of the files has a kind and a name")
    return named


def _run(
    asked: tuple[RequestedTarget, ...],
    *,
    kubeconfig: str | None,
    context: str | None,
    namespace: str | None,
    all_namespaces: bool,
    **flags: Any,
) -> int:
    kubeconfig = kubeconfig or default_kubeconfig()
    within = namespace_of(kubeconfig, context, namespace, asked, every=all_namespaces)
    options = WaitOptions(
        kubeconfig=kubeconfig, context=context, asked=asked, namespace=within, **flags
    )
    return asyncio.run(_wait(options, _tell))


def _tell(text: str) -> None:
    click.echo(printable(text))

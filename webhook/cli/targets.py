"""The loops of `status` and `wait`: the objects that a user names, and who is to blame for them."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import Final, NamedTuple, Self

import click

from genguard.blame.stuck import Culprits
from genguard.detection.finding import Finding
from genguard.formats.nesting import is_unreadable
from genguard.objects.served import Served, UnknownTargetError
from genguard.status.assessment import AskRules
from genguard.status.targets import RequestedTarget, WatchTarget, parse_targets, resolve_targets
from genguard.status.trees import Node
from genguard.status.wait_goal import Goal, WaitProgress, WaitState, WaitTracker
from webhook.cli.asking_server import NoServerError, Server, answer_of
from webhook.cli.errors import ExitCode, told_unread
from webhook.cli.object_watch import ObjectWatch, Snapshot
from webhook.cli.options import Access
from webhook.cli.output import Tell
from webhook.cluster.discovery import absent, discover
from webhook.cluster.rest import RefusedError, Rest

_TICK: Final = 1.0
"""Seconds after which time alone may have changed the answer."""
_STUCK_SECONDS: Final = 3.0
"""A wait of this length may be stuck: the server is asked who is to blame."""
_MOST_TOLD: Final = 5
_MOST_FINDINGS: Final = 1_000
"""Open findings that are asked for, the worst first."""
_APART_SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True)
class Targets:
    """The objects that are asked for, and how they are evaluated; `namespace` "" is every one."""

    access: Access
    asked: tuple[RequestedTarget, ...]
    namespace: str
    selector: str
    ask_rules: AskRules

    @classmethod
    def of(
        cls,
        access: Access,
        asked: Sequence[RequestedTarget],
        ask_rules: AskRules,
        *,
        namespace: str | None,
        all_namespaces: bool,
        selector: str,
    ) -> "Targets":
        """Read the flags of asks_objects(). Raises click.UsageError or NoClusterError."""
        if all_namespaces and any(target.name for target in asked):
            raise click.UsageError("an object of a name is in one namespace: give -n instead of -A")
        within = "" if all_namespaces else access.namespace(namespace)
        return cls(access, tuple(asked), within, selector, ask_rules)

    def resolve(self, kinds: Sequence[Served], asked: RequestedTarget) -> WatchTarget:
        """Find the kind of what is asked. Raises UnknownTargetError."""
        (target,) = resolve_targets([asked], kinds, self.namespace, self.selector)
        return target

    @asynccontextmanager
    async def watched(
        self, rest: Rest, kinds: Sequence[Served], found: Sequence[WatchTarget], tell: Tell
    ) -> AsyncIterator[tuple[ObjectWatch, "CulpritWatch"]]:
        """Watch objects, and ask a server about them, while the context is entered.

        Raises NoServerError for a server that is named and does not answer, or one of UNREACHED.
        """
        within = self.namespace if all(target.namespace for target in found) else ""
        if self.access.server:
            async with self.access.reached(rest) as server:
                await ask_findings(server, within)
        async with (
            ObjectWatch(rest, kinds, found, tell, ask_rules=self.ask_rules) as objects,
            CulpritWatch(self.access, rest, kinds, within, tell) as culprits,
        ):
            yield objects, culprits


def asked_by(words: Sequence[str], selector: str) -> list[RequestedTarget]:
    """Read KIND/NAME of the command line. Raises click.UsageError."""
    try:
        asked = parse_targets(words)
    except UnknownTargetError as error:
        raise click.UsageError(str(error)) from error
    if selector and any(target.name for target in asked):
        raise click.UsageError("an object is chosen by its name or by -l, not by both")
    return asked


async def _try_list(rest: Rest, target: WatchTarget) -> None:
    """Find out whether it may be read. Raises RefusedError or one of UNREACHED."""
    path = target.served.path(target.namespace)
    await rest.try_list(path, target.list_parameters, kind=target.served.kind)


class CulpritWatch:
    """Asks a server who is to blame, from time to time, while its context is entered.

    needed  say once why nothing is known; otherwise leave out without a word a server that nobody
            named and that cannot be asked, for nothing is stuck
    known   the last answer; None: there was none
    """

    def __init__(
        self, access: Access, rest: Rest, kinds: Iterable[Served], namespace: str, tell: Tell
    ) -> None:
        """`namespace` "" is every namespace."""
        self._access: Final = access
        self._rest: Final = rest
        self._kinds: Final = tuple(kinds)
        self._namespace: Final = namespace
        self._tell: Final = tell
        self._asking: asyncio.Task[None] | None = None
        self._asked_at = -_APART_SECONDS
        self._has_told = False
        self.needed = True
        self.known: Culprits | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._asking is not None:
            self._asking.cancel()
            await asyncio.gather(self._asking, return_exceptions=True)

    def look(self) -> None:
        """Begin to ask, unless it was asked a moment ago; `known` changes later."""
        is_idle = self._asking is None or self._asking.done()
        if is_idle and time.monotonic() - self._asked_at >= _APART_SECONDS:
            self._asked_at = time.monotonic()
            self._asking = asyncio.create_task(self._ask())

    async def now(self) -> Culprits | None:
        """Ask, and return the answer; None where there is none."""
        self.look()
        if self._asking is not None:
            await self._asking
        return self.known

    async def _ask(self) -> None:
        ask = partial(ask_findings, namespace=self._namespace)
        try:
            found, why = await answer_of(self._access, self._rest, ask)
        except NoServerError as error:
            found, why = None, str(error)
        if found is None:
            self._tell_once(why)
        else:
            self.known = Culprits(found, self._kinds, time.time)

    def _tell_once(self, reason: str) -> None:
        if self.needed and not self._has_told:
            self._has_told = True
            self._tell(f"note: who is to blame is not known: {reason}")


async def ask_findings(server: Server, namespace: str = "") -> tuple[Finding, ...]:
    """Ask for the open findings of a namespace, "" for all. Raises NoServerError."""
    query = {"state": "open", "namespace": namespace, "limit": str(_MOST_FINDINGS)}
    return await server.findings(query)


def open_findings(number: int) -> str:
    """Say that so many findings are open, and how they are seen."""
    what = "finding is" if number == 1 else "findings are"
    return f"{number} {what} open about what is shown: genguard findings"


class Shown(NamedTuple):
    """What `status` has shown once."""

    missing: list[str]  # a sentence for each object that was asked for and does not exist
    unread: Mapping[str, RefusedError]  # collections that may not be listed
    open_findings: int  # of severity warning or critical, about what is shown
    has_unreadable: bool  # an object cannot be decoded


async def show_objects(
    targets: Targets,
    show: Callable[[Snapshot, Culprits | None], None],
    tell: Tell,
    *,
    everything: bool,
    watch: bool,
) -> Shown:
    """Show the objects once, or with `watch` after each change and each second, for ever.

    A server is asked for findings about them. With `everything`, no kind was named: kinds that are
    not served, or may not be read, are left out.
    Raises NoClusterError, UnknownTargetError, RefusedError, NoServerError or one of UNREACHED.
    """
    async with targets.access.connected() as rest:
        kinds = await discover(rest)
        found, unread = [], {}
        for asked in targets.asked:
            try:
                target = targets.resolve(kinds, asked)
                await _try_list(rest, target)
            except UnknownTargetError:
                if not everything:
                    raise
            except RefusedError as error:
                if not everything or error.status != HTTPStatus.FORBIDDEN:
                    raise
                tell(str(error))
                unread[str(target)] = error
            else:
                found.append(target)
        async with targets.watched(rest, kinds, found, tell) as (objects, culprits):
            culprits.needed = bool(targets.access.server)
            while True:
                snapshot = await objects.next_snapshot(_TICK)
                if snapshot is None:
                    continue
                culprits.needed = culprits.needed or any(map(_is_stuck, snapshot.roots))
                if not watch:
                    show(snapshot, await culprits.now())
                    missing = [
                        str(await absent(rest, target.served, target.namespace, target.name))
                        for target in found
                        if target.name and not snapshot.there[target]
                    ]
                    number = culprits.known.count_open(snapshot.roots) if culprits.known else 0
                    nodes = (node for root in snapshot.roots for node in root.walk())
                    is_cut = any(is_unreadable(node.assessment.document) for node in nodes)
                    return Shown(missing, unread | {**snapshot.unread}, number, is_cut)
                culprits.look()
                show(snapshot, culprits.known)


def _is_stuck(root: Node) -> bool:
    """Whether an object is not ready, or not settled, with all that it owns."""
    view = root.assessment.view
    return view.ready is not True or not view.settled


class Waiting:
    """`wait`: says a line when the reason for waiting changes, and one at the end."""

    def __init__(
        self, targets: Targets, goals: tuple[Goal, ...], seconds: float, tell: Tell
    ) -> None:
        self._targets: Final = targets
        self._goals: Final = goals
        self._goal: Final = " and ".join(goal.text for goal in goals)
        self._seconds: Final = seconds
        self._end: Final = time.monotonic() + seconds
        self._tell: Final = tell
        self._told = ""
        self._told_at = -_TICK

    async def run(self) -> ExitCode:
        """Raises NoClusterError, UnknownTargetError, RefusedError, NoServerError or UNREACHED."""
        async with self._targets.access.connected() as rest:
            resolved = await self._resolve(rest)
            if resolved is None:
                return self._time_out("")
            kinds, found = resolved
            async with self._targets.watched(rest, kinds, found, self._tell) as watched:
                return await self._watch(WaitTracker(found, self._goals), *watched)

    async def _resolve(self, rest: Rest) -> tuple[list[Served], list[WatchTarget]] | None:
        """The kinds that are served, and the objects that are waited for; None when time is up.

        A custom resource may be waited for before its definition is there, if its group is given;
        what may not be read is not waited for.
        """
        while True:
            try:
                kinds = await discover(rest)
                found = [self._targets.resolve(kinds, asked) for asked in self._targets.asked]
                for target in found:
                    await _try_list(rest, target)
            except UnknownTargetError as error:
                is_deletion = any(goal.is_deletion for goal in self._goals)
                if is_deletion or not any(asked.may_come for asked in self._targets.asked):
                    raise
                self._tell_changed(f"waiting: {error}")
            except RefusedError as error:
                if not error.is_passing and error.status != HTTPStatus.NOT_FOUND:
                    raise
                self._tell_changed(f"waiting: {error}")
            else:
                return kinds, found
            if self._remaining <= 0:
                return None
            await asyncio.sleep(min(_TICK / 2, self._remaining))

    async def _watch(
        self, tracker: WaitTracker, objects: ObjectWatch, culprits: CulpritWatch
    ) -> ExitCode:
        begun = time.monotonic()
        waiting: list[WaitProgress] = []
        snapshot: Snapshot | None = None
        while self._remaining > 0:
            snapshot = await objects.next_snapshot(min(_TICK, self._remaining))
            if snapshot is None:
                continue
            every = tracker.update(snapshot.roots, snapshot.there)
            failed = [progress for progress in every if progress.state is WaitState.FAILED]
            waiting = [progress for progress in every if progress.state is WaitState.WAITING]
            if failed:
                known = await culprits.now()
                self._tell(f"failed: {_listed(failed, snapshot, known)}")
                return ExitCode.FAILED
            # Neither is known for sure without what may not be read.
            refused = {**snapshot.unread, **snapshot.unwatched} if waiting else snapshot.unread
            if refused:
                self._tell(f"failed: {told_unread(refused)}: {_listed(waiting or every)}")
                return ExitCode.FAILED
            if not waiting:
                self._tell(f"reached {self._goal}: {_listed(every)}")
                known = await culprits.now() if self._targets.access.server else None
                if known and (number := known.count_open(snapshot.roots)):
                    self._tell(open_findings(number))
                return ExitCode.DONE
            if time.monotonic() - begun >= _STUCK_SECONDS:
                culprits.look()
            more = f" (and {len(waiting) - 1} more objects)" if len(waiting) > 1 else ""
            first = _listed(waiting[:1], snapshot, culprits.known)
            self._tell_changed(f"waiting for {self._goal}: {first}{more}")
        known = culprits.known or (await culprits.now() if waiting else None)
        return self._time_out(_listed(waiting, snapshot, known))

    def _tell_changed(self, text: str) -> None:
        """Say a line when it differs from the last one, at most one a second."""
        now = time.monotonic()
        if text != self._told and now - self._told_at >= _TICK:
            self._tell(text)
            self._told, self._told_at = text, now

    def _time_out(self, lacking: str) -> ExitCode:
        text = f"timed out after {self._seconds:g} s"
        self._tell(f"{text}: {lacking}" if lacking else text)
        return ExitCode.TIME_UP

    @property
    def _remaining(self) -> float:
        return self._end - time.monotonic()


def _listed(
    every: Sequence[WaitProgress], snapshot: Snapshot | None = None, known: Culprits | None = None
) -> str:
    """Say how far objects are, and in a few words who is to blame."""
    roots = snapshot.roots if snapshot else ()
    nodes = {node.assessment.view.uid: node for root in roots for node in root.walk()}
    texts = []
    for progress in every[:_MOST_TOLD]:
        blamed = known.of_tree(nodes[progress.uid]) if known and progress.uid in nodes else ()
        texts.append(f"{progress}; blamed: {blamed[0]}" if blamed else str(progress))
    more = len(every) - _MOST_TOLD
    return "; ".join([*texts, f"and {more} more"] if more > 0 else texts)

"""Tracks every object that the watches of `serve --watch` show, and keeps none of them.

What a rule in CEL says of an object is asked in a thread. Of each object with such a rule the
latest version waits for its turn; of too many objects those that came first are dropped, and
tracked with their next change.
"""

import asyncio
import re
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Final, NamedTuple

import msgspec

from genguard.generation.table import load_rows
from genguard.objects.bounded import Bounded
from genguard.objects.fields import Fields
from genguard.objects.metadata import decode_metadata
from genguard.status.health_rules import RuleAnswers
from genguard.status.terminating_pods import DEPLOYMENT, REPLICA_SET, Terminating
from genguard.status.tracking import Tracking
from webhook.cel.evaluator import RuleJudge
from webhook.tasks.supervisor import Supervisor
from webhook.tasks.threads import in_thread
from webhook.telemetry.logs import LOGGER

MOST_WAITING: Final = 1_500
MOST_WAITING_BYTES: Final = 6 * 1024 * 1024

_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


class NotWatchableError(ValueError):
    """A resource cannot be watched; the message says which and why."""


def parse_watched(text: str, flag: str = "--watch") -> tuple[str, ...]:
    """`pods,deployments.apps` → each resource once; "" is none. `flag` is where it was given.

    Custom resources may be defined later, so of what has a group only the form is checked. Raises
    NotWatchableError.
    """
    names = dict.fromkeys(name.strip() for name in text.split(",") if name.strip())
    for name in names:
        resource, _, group = name.partition(".")
        rows = [row for row in load_rows() if row.resource == resource and row.persisted]
        if not _NAME.fullmatch(name) or not (group or rows):
            raise NotWatchableError(
                f"{flag} {name!r}: not a resource as kubectl api-resources shows it, such as pods, "
                "deployments.apps, widgets.example.org"
            )
        if not group and all(row.group for row in rows):
            meant = " or ".join(row.name for row in rows)
            raise NotWatchableError(f"{flag} {name!r}: it has a group; write {meant}")
    return tuple(names)


class _Seen(NamedTuple):
    """A version of an object as a watch has shown it, and the time in Unix seconds."""

    resource: str
    kind: str
    object: Fields
    at: float
    created: bool


class _Metadata(msgspec.Struct):
    uid: str = ""


class Watching:
    """The Watcher of cluster.watch."""

    def __init__(
        self,
        resources: Iterable[str],
        tracking: Tracking,
        rules: RuleJudge | None = None,
        supervisor: Supervisor | None = None,
    ) -> None:
        """`resources` are those that are watched, such as pods and deployments.apps.

        rules  in CEL; None: no kind has one. they are asked within `judging`
        """
        self._supervisor: Final = supervisor or Supervisor()
        self._rules: Final = rules
        self.terminating: Final = Terminating()
        self.tracking: Final = tracking
        self._counts: Final[Mapping[str, Callable[[Fields], None]]] = {
            "pods": self.terminating.record_pod,
            "replicasets.apps": partial(self.terminating.record_owner, REPLICA_SET),
            "deployments.apps": partial(self.terminating.record_owner, DEPLOYMENT),
        }
        self._current: Final = dict.fromkeys(resources, False)
        self._known: Final[set[str]] = set()
        self._waiting: Final = Bounded[str, _Seen](MOST_WAITING, MOST_WAITING_BYTES)
        self._asked_for = ""
        """The uid of the object of which a rule is asked now."""
        self._wake: Final = asyncio.Event()

    def seen(self, resource: str, found: Fields) -> None:
        """Take in a version of an object, whole."""
        with self._supervisor.guard("watched objects"):
            try:
                self._see(resource, found)
            except (KeyError, msgspec.MsgspecError, RecursionError) as error:
                self._leave_out(resource, _uid(found), type(error).__name__)

    def _see(self, resource: str, found: Fields) -> None:
        kind = msgspec.json.decode(found["kind"], type=str)
        # What is new after all was listed has been created since.
        seen = _Seen(resource, kind, found, time.time(), self._current.get(resource, False))
        if self._rules is not None and self._rules.covers(resource.partition(".")[2], kind):
            self._let_wait(seen)
            return
        self._track(seen, None)
        if count := self._counts.get(resource):
            count(found)

    def _track(self, seen: _Seen, answers: RuleAnswers | None) -> None:
        name, _, group = seen.resource.partition(".")
        self.tracking.record_stored(
            group, name, seen.kind, seen.object, seen.at, answers=answers, created=seen.created
        )

    def unreadable(self, resource: str, uid: str) -> None:
        """Take in that an object is nested too deep to decode; it is counted as left out."""
        self._leave_out(resource, uid, RecursionError.__name__)

    def _leave_out(self, resource: str, uid: str, reason: str) -> None:
        """Count an object that cannot be read; what is remembered of it may be wrong by now."""
        self._supervisor.leave_out("unreadable objects")
        self.gone(uid)
        facts = {"resource": resource, "reason": reason}
        LOGGER.warning("object not read", extra={"facts": facts})

    def gone(self, uid: str) -> None:
        """Take in that an object was deleted."""
        self._waiting.pop(uid)
        if self._asked_for == uid:
            self._asked_for = ""
        self.tracking.forget(uid)
        self.terminating.forget(uid)

    def current(self, resource: str, *, is_current: bool) -> None:
        """Take in whether all of a resource has been seen and every change arrives."""
        self._current[resource] = is_current
        if is_current:
            self._known.add(resource)

    def states(self) -> Mapping[str, bool]:
        """Each watched resource, and whether every change of it arrives now."""
        return self._current

    def knows(self, *resources: str) -> bool:
        """Whether every object of these resources has been seen, now or until their watch broke."""
        return self._known.issuperset(resources)

    def judging(self) -> AbstractAsyncContextManager[None]:
        """Ask the rules in CEL about what waits, and track it, while the context is entered."""
        return self._supervisor.running({"judged objects": self._judge_waiting})

    async def _judge_waiting(self) -> None:
        while True:
            while (first := self._waiting.oldest()) is not None:
                self._waiting.pop(first[0])
                with self._supervisor.guard("judged objects"):
                    await self._judge(*first)
            await self._wake.wait()
            self._wake.clear()

    async def _judge(self, uid: str, seen: _Seen) -> None:
        if self._rules is None:
            return
        self._asked_for = uid
        try:
            group = seen.resource.partition(".")[2]
            answers = await in_thread(self._rules.judge, group, seen.kind, seen.object)
            if self._asked_for == uid:
                self._track(seen, answers)
        except (KeyError, msgspec.MsgspecError, RecursionError) as error:
            self._leave_out(seen.resource, uid, type(error).__name__)

    def _let_wait(self, seen: _Seen) -> None:
        uid = decode_metadata(seen.object).uid or ""
        before, dropped = self._waiting.get(uid), self._waiting.dropped
        # A copy: the fields of a listed object keep the whole page in memory.
        copied = {key: msgspec.Raw(bytes(raw)) for key, raw in seen.object.items()}
        created = seen.created if before is None else before.created
        size = sum(map(len, copied.values()))
        self._waiting.put(uid, seen._replace(object=copied, created=created), size)
        if self._waiting.dropped and not dropped:
            facts = {"effect": "they are tracked with their next change"}
            LOGGER.warning("objects not judged: too many at once", extra={"facts": facts})
        self._wake.set()


def _uid(found: Fields) -> str:
    """The uid of an object that cannot be read, "" where even that is not to be had."""
    try:
        return msgspec.json.decode(found["metadata"], type=_Metadata).uid
    except (KeyError, msgspec.MsgspecError, RecursionError):
        return ""

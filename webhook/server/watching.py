"""Takes in every object that the watches of `serve --watch` see."""

import asyncio
import re
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

import msgspec

from genguard.generation.table import load_rows
from genguard.objects.fields import Fields
from genguard.objects.metadata import decode_metadata
from genguard.status.terminating_pods import Terminating
from genguard.status.tracking import Tracking
from webhook.server.detecting import Rules
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
    return tuple(_checked(name, flag) for name in names)


def _checked(name: str, flag: str) -> str:
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
    return name


class Seen(NamedTuple):
    """An object as a watch has shown it, and the time in Unix seconds."""

    group: str
    resource: str
    kind: str
    object: Fields
    at: float


class JudgedObjects:
    """Tracks the objects of watches whose kind has a rule in CEL, each once its rule has spoken.

    A rule is evaluated in a thread. Of each object the latest state waits for its turn; of too many
    objects those that came first are dropped, and tracked with their next change.
    """

    def __init__(
        self, rules: Rules, tracking: Tracking, supervisor: Supervisor | None = None
    ) -> None:
        self._supervisor: Final = supervisor or Supervisor()
        self._rules: Final = rules
        self._tracking: Final = tracking
        self._waiting: Final[OrderedDict[str, Seen]] = OrderedDict()
        self._wake: Final = asyncio.Event()
        self.bytes = 0
        self.dropped = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def covers(self, group: str, kind: str) -> bool:
        """Whether a kind has a rule."""
        return self._rules.covers(group, kind)

    def put(self, seen: Seen) -> None:
        """Let an object wait for its turn; raises msgspec.MsgspecError and KeyError."""
        uid = decode_metadata(seen.object).uid or ""
        self._take(uid)
        # A copy: the fields of a listed object keep the whole page in memory.
        copied = {key: msgspec.Raw(bytes(raw)) for key, raw in seen.object.items()}
        self._waiting[uid] = seen._replace(object=copied)
        self.bytes += _size(seen)
        while len(self._waiting) > MOST_WAITING or self.bytes > MOST_WAITING_BYTES:
            self._take(next(iter(self._waiting)))
            if not self.dropped:
                facts = {"effect": "they are tracked with their next change"}
                LOGGER.warning("objects not judged: too many at once", extra={"facts": facts})
            self.dropped += 1
        self._wake.set()

    def drop(self, uid: str) -> None:
        """Forget an object that was deleted. One whose rule is asked is not tracked afterwards."""
        self._take(uid)

    async def run(self) -> None:
        """Judge and track what waits, for ever."""
        while True:
            while self._waiting:
                with self._supervisor.guard("judged objects"):
                    await self._judge(next(iter(self._waiting)))
            await self._wake.wait()
            self._wake.clear()

    def _take(self, uid: str) -> Seen | None:
        seen = self._waiting.pop(uid, None)
        if seen is not None:
            self.bytes -= _size(seen)
        return seen

    async def _judge(self, uid: str) -> None:
        seen = self._take(uid)
        if seen is None:
            return
        group, resource, kind, found, at = seen
        try:
            answers = await in_thread(self._rules.judge, group, kind, found)
            self._tracking.record_stored(group, resource, kind, found, at, answers=answers)
        except (KeyError, msgspec.MsgspecError, RecursionError) as error:
            self._supervisor.leave_out("unreadable objects")
            self._tracking.forget(uid)
            _tell_unread(f"{resource}.{group}", type(error).__name__)


def _size(seen: Seen) -> int:
    return sum(memoryview(raw).nbytes for raw in seen.object.values())


def _tell_unread(resource: str, reason: str) -> None:
    facts = {"resource": resource, "reason": reason}
    LOGGER.warning("object not read", extra={"facts": facts})


def _uid(found: Fields) -> str:
    """The uid of an object that cannot be read, "" where even that is not to be had."""
    try:
        return msgspec.json.decode(found["metadata"], type=_Metadata).uid
    except (KeyError, msgspec.MsgspecError, RecursionError):
        return ""


class _Metadata(msgspec.Struct):
    uid: str = ""


class Watching:
    """The Watcher of cluster.objects. It counts and tracks objects, and keeps none of them."""

    def __init__(
        self,
        resources: Iterable[str],
        tracking: Tracking,
        judged: JudgedObjects | None = None,
        supervisor: Supervisor | None = None,
    ) -> None:
        """`resources` are those that are watched, such as pods and deployments.apps.

        judged  takes the objects of kinds that have a rule in CEL; None: no kind has one
        """
        self._supervisor: Final = supervisor or Supervisor()
        self._judged: Final = judged
        self.terminating: Final = Terminating()
        self._tracking: Final = tracking
        self._counts: Final[Mapping[str, Callable[[Fields], None]]] = {
            "pods": self.terminating.record_pod,
            "replicasets.apps": self.terminating.record_replica_set,
            "deployments.apps": self.terminating.record_deployment,
        }
        self._current: Final = dict.fromkeys(resources, False)
        self._known: Final[set[str]] = set()

    def seen(self, resource: str, found: Fields) -> None:
        """Take in an object, whole, as it is now."""
        with self._supervisor.guard("watched objects"):
            self._see(resource, found)

    def _see(self, resource: str, found: Fields) -> None:
        name, _, group = resource.partition(".")
        try:
            kind = msgspec.json.decode(found["kind"], type=str)
            if self._judged is not None and self._judged.covers(group, kind):
                self._judged.put(Seen(group, name, kind, found, time.time()))
                return
            self._tracking.record_stored(group, name, kind, found, time.time())
            if count := self._counts.get(resource):
                count(found)
        except (KeyError, msgspec.MsgspecError, RecursionError) as error:
            self._leave_out(resource, _uid(found), type(error).__name__)

    def unreadable(self, resource: str, uid: str) -> None:
        """Take in that an object is nested too deep to decode; it is counted as left out."""
        self._leave_out(resource, uid, RecursionError.__name__)

    def _leave_out(self, resource: str, uid: str, reason: str) -> None:
        """Count an object that cannot be read; what is remembered of it may be wrong by now."""
        self._supervisor.leave_out("unreadable objects")
        self._tracking.forget(uid)
        self._forget(uid)
        _tell_unread(resource, reason)

    def gone(self, uid: str) -> None:
        """Take in that an object was deleted."""
        self._tracking.record_deleted(uid)
        self._forget(uid)

    def _forget(self, uid: str) -> None:
        if self._judged is not None:
            self._judged.drop(uid)
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

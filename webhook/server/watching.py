"""Tracks every object that the watches of `serve --watch` show, and keeps none of them.

What a rule in CEL says of an object is asked in a thread, of one object at a time. The watch reads
on when that is known: what has changed meanwhile waits in the API server.
"""

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Final

import msgspec

from genguard.generation.table import load_rows
from genguard.objects.fields import Fields, decode_field, get, text
from genguard.status.health_rules import RuleAnswers
from genguard.status.terminating_pods import DEPLOYMENT, REPLICA_SET, Terminating
from genguard.status.tracking import Tracking
from webhook.cel.evaluator import RuleEvaluator
from webhook.tasks.supervisor import Supervisor
from webhook.tasks.threads import in_thread
from webhook.telemetry.logs import LOGGER

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


class Watching:
    """The Watcher of cluster.watch."""

    def __init__(
        self,
        resources: Iterable[str],
        tracking: Tracking,
        rules: RuleEvaluator | None = None,
        supervisor: Supervisor | None = None,
    ) -> None:
        """`resources` are those that are watched, such as pods and deployments.apps.

        rules  in CEL; None: no kind has one
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
        self._asking: Final = asyncio.Lock()

    def seen(self, resource: str, found: Fields) -> Awaitable[None] | None:
        """Take in a version of an object, whole; the next one once what is returned was awaited."""
        with self._reading(resource, found):
            kind = msgspec.json.decode(found["kind"], type=str)
            if self._rules is not None and self._rules.covers(resource.partition(".")[2], kind):
                return self._evaluate(self._rules, resource, kind, found)
            self._track(resource, kind, found, time.time(), None)
            if count := self._counts.get(resource):
                count(found)
        return None

    async def _evaluate(
        self, rules: RuleEvaluator, resource: str, kind: str, found: Fields
    ) -> None:
        at = time.time()
        with self._reading(resource, found):
            async with self._asking:
                answers = await in_thread(rules.answer, resource.partition(".")[2], kind, found)
            self._track(resource, kind, found, at, answers)

    @contextmanager
    def _reading(self, resource: str, found: Fields) -> Iterator[None]:
        with self._supervisor.guard("watched objects"):
            try:
                yield
            except (KeyError, msgspec.MsgspecError, RecursionError) as error:
                self.leave_out(resource, _uid(found), type(error).__name__)

    def _track(
        self, resource: str, kind: str, found: Fields, at: float, answers: RuleAnswers | None
    ) -> None:
        name, _, group = resource.partition(".")
        # What is new after all was listed has been created since.
        created = self._current.get(resource, False)
        self.tracking.record_stored(group, name, kind, found, at, answers=answers, created=created)

    def leave_out(self, resource: str, uid: str, reason: str = RecursionError.__name__) -> None:
        """Count an object that cannot be read; what is remembered of it may be wrong by now."""
        self._supervisor.leave_out("unreadable objects")
        self.gone(uid)
        fields = {"resource": resource, "reason": reason}
        LOGGER.warning("object not read", extra={"fields": fields})

    def gone(self, uid: str) -> None:
        """Take in that an object was deleted."""
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


def _uid(found: Fields) -> str:
    """The uid of an object that cannot be read, "" where even that is not to be had."""
    try:
        uid = get(decode_field(found, "metadata"), "uid")
    except (msgspec.MsgspecError, RecursionError):
        return ""
    return text(uid)

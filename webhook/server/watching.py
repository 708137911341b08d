"""Takes in every object that the watches of `serve --watch` see."""

import re
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Final

import msgspec

from webhook.generation.table import load_rows
from webhook.objects.fields import Fields
from webhook.status.terminating_pods import Terminating
from webhook.status.tracking import Tracking
from webhook.telemetry.logs import LOGGER

_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


class NotWatchableError(ValueError):
    """A resource cannot be watched; the message says which and why."""


def parse_watched(text: str) -> tuple[str, ...]:
    """`pods,deployments.apps` → each resource once; "" is none.

    Custom resources may be defined later, so of what has a group only the form is checked. Raises
    NotWatchableError.
    """
    names = dict.fromkeys(name.strip() for name in text.split(",") if name.strip())
    return tuple(map(_checked, names))


def _checked(name: str) -> str:
    resource, _, group = name.partition(".")
    rows = [row for row in load_rows() if row.resource == resource and row.persisted]
    if not _NAME.fullmatch(name) or not (group or rows):
        raise NotWatchableError(
            f"--watch {name!r}: not a resource as kubectl api-resources shows it, such as pods, "
            "deployments.apps, widgets.example.org"
        )
    if not group and all(row.group for row in rows):
        meant = " or ".join(row.name for row in rows)
        raise NotWatchableError(f"--watch {name!r}: it has a group; write {meant}")
    return name


class Watching:
    """The Watcher of cluster.objects. It counts and tracks objects, and keeps none of them."""

    def __init__(self, resources: Iterable[str], tracking: Tracking) -> None:
        """`resources` are those that are watched, such as pods and deployments.apps."""
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
        name, _, group = resource.partition(".")
        try:
            kind = msgspec.json.decode(found["kind"], type=str)
            self._tracking.record_stored(group, name, kind, found, time.time())
            if count := self._counts.get(resource):
                count(found)
        except (KeyError, msgspec.MsgspecError, RecursionError) as error:
            facts = {"resource": resource, "reason": type(error).__name__}
            LOGGER.warning("object not read", extra={"facts": facts})

    def gone(self, uid: str) -> None:
        """Take in that an object was deleted."""
        self._tracking.forget(uid)
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

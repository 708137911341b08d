"""An API server as far as Tracking sees one: it keeps an object, and a watch shows its versions."""

from typing import Any

from msgspec.structs import replace

from genguard.objects.fields import fields_of
from genguard.status.counts import KindCounts, ResourceKind
from genguard.status.tracked_state import TrackedState
from genguard.status.tracking import Tracked, Tracking
from tests.reviews import KINDS


def put(tracking: Tracking, uid: str, kind: ResourceKind, state: TrackedState) -> None:
    """Have an object in a state, as if a watch had shown it so."""
    position = tracking.counts_by_kind.position(*kind)
    tracking._put(uid, None, replace(state, kind=position))


def objects(tracking: Tracking) -> list[Tracked]:
    """Every tracked object, the longest unchanged one first."""
    return [found for uid, _ in tracking.states() if (found := tracking.find(uid))]


class Story:
    """One object's versions, in order; each step is what its name in tests/cases/status says."""

    def __init__(self, resource: str = "deployments") -> None:
        self.resource = resource
        self.tracking = Tracking()
        self.stored: list[dict[str, Any]] = []
        self.version = 10

    @property
    def now(self) -> Tracked | None:
        return self.tracking.find("object-1")

    @property
    def counts(self) -> KindCounts:
        group, _, resource, kind = KINDS[self.resource]
        counts = self.tracking.counts_by_kind
        return counts.counts(counts.position(group, resource, kind))

    def play(self, step: dict[str, Any]) -> None:
        """One step at its time."""
        at = float(step["at"])
        for name in step.keys() - {"at", "is"}:
            getattr(self, f"_{name}")(step[name], at)

    def _create(self, fields: dict[str, Any], at: float) -> None:
        """Created while it was watched."""
        self._store(self._made(fields, {}, 1))
        self._show(-1, at, created=True)

    def _spec(self, spec: dict[str, Any], at: float) -> None:
        self._unseen_spec(spec, at)
        self._show(-1, at)

    def _status(self, status: dict[str, Any], at: float) -> None:
        """Written to /status."""
        self._unseen_status(status, at)
        self._show(-1, at)

    def _unseen_spec(self, spec: dict[str, Any], at: float) -> None:
        """Stored while genguard was away."""
        self._store(self._made({"spec": spec}, self.stored[-1], 1))

    def _unseen_status(self, status: dict[str, Any], at: float) -> None:
        self._store(self._made({"status": status}, self.stored[-1], 0))

    def _is_there(self, found: dict[str, Any], at: float) -> None:
        """Was stored before genguard came, and is listed."""
        self._store(self._made(found, {}, found.get("generation", 1)))
        self._show(-1, at)

    def _watched(self, index: int, at: float) -> None:
        """A watch shows a version again, or one that was not seen: -1 is the last."""
        self._show(index, at)

    def _quiet(self, _: Any, at: float) -> None:
        """Nothing more is heard."""
        self.tracking.advance(at)

    def _delete(self, _: Any, at: float) -> None:
        self.tracking.forget("object-1")

    def _show(self, index: int, at: float, *, created: bool = False) -> None:
        group, _, resource, kind = KINDS[self.resource]
        found = fields_of(self.stored[index])
        self.tracking.record_stored(group, resource, kind, found, at, created=created)

    def _made(self, fields: dict[str, Any], old: dict[str, Any], step: int) -> dict[str, Any]:
        metadata = dict(old.get("metadata", {"uid": "object-1", "name": "thing"}))
        generation = metadata.get("generation", 0)
        if self.resource != "configmaps":
            metadata["generation"] = generation + step
        metadata |= fields.get("metadata", {})
        group, version, _, kind = KINDS[self.resource]
        api_version = f"{group}/{version}" if group else version
        identity = {"apiVersion": api_version, "kind": kind}
        return {**identity, **old, **fields, "metadata": metadata}

    def _store(self, found: dict[str, Any]) -> None:
        self.version += 1
        found["metadata"]["resourceVersion"] = str(self.version)
        self.stored.append(found)

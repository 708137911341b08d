"""An API server as far as Tracking sees one: it keeps an object and tells of its writes."""

from typing import Any

import msgspec

from genguard.admission.review import Phase
from genguard.generation import CustomResource, StatusSubresource
from genguard.objects.fields import fields_of
from genguard.review import review
from genguard.status.kind_counts import KindCounts
from genguard.status.tracking import Tracked, Tracking, record_outcome
from tests.reviews import KINDS, judge, make_review

WIDGETS = CustomResource(*KINDS["widgets"], StatusSubresource.PRESENT)


class Story:
    """One object's writes, in order; each step is what its name in tests/cases/status says."""

    def __init__(self, resource: str = "deployments") -> None:
        self.resource = resource
        self.tracking = Tracking()
        self.judge = judge(custom=[WIDGETS])
        self.stored: list[dict[str, Any]] = []
        self.version = 10

    @property
    def now(self) -> Tracked | None:
        return self.tracking.find("object-1")

    @property
    def counts(self) -> KindCounts:
        group, _, resource, kind = KINDS[self.resource]
        return self.tracking.counts_by_kind.counts(
            self.tracking.counts_by_kind.position(group, resource, kind)
        )

    def play(self, step: dict[str, Any]) -> None:
        """One step at its time."""
        at = float(step["at"])
        for name in step.keys() - {"at", "is"}:
            getattr(self, f"_{name}")(step[name], at)

    def _create(self, fields: dict[str, Any], at: float) -> None:
        """Created and stored."""
        self._review("CREATE", None, self._made(fields, {}, 1), at)
        self._store(self._made(fields, {}, 1))

    def _spec(self, spec: dict[str, Any], at: float) -> None:
        """Written to the main resource, and stored."""
        self._refused_spec(spec, at)
        self._store(self._made({"spec": spec}, self.stored[-1], 1))

    def _refused_spec(self, spec: dict[str, Any], at: float) -> None:
        """Let through by genguard, refused by another webhook."""
        old = self.stored[-1]
        self._review("UPDATE", old, self._made({"spec": spec}, old, 1), at)

    def _metadata(self, metadata: dict[str, Any], at: float) -> None:
        """Written to the main resource, in place of the metadata that was."""
        old = self.stored[-1]
        kept = {key: old["metadata"][key] for key in ("uid", "name", "resourceVersion")}
        new = {**old, "metadata": kept | metadata}
        self._review("UPDATE", old, new, at)
        self._store(new)

    def _dry_run(self, spec: dict[str, Any], at: float) -> None:
        old = self.stored[-1]
        self._review("UPDATE", old, self._made({"spec": spec}, old, 1), at, dry_run=True)

    def _status(self, status: dict[str, Any], at: float) -> None:
        """Written to /status, and stored."""
        self._refused_status(status, at)
        self._store(self._made({"status": status}, self.stored[-1], 0))

    def _refused_status(self, status: dict[str, Any], at: float) -> None:
        old = self.stored[-1]
        new = self._made({"status": status}, old, 0)
        self._review("UPDATE", old, new, at, subresource="status")

    def _scale(self, replicas: int, at: float) -> None:
        """Written through /scale, which shows a Scale and no generation, and stored."""
        old = self.stored[-1]
        views = [
            {"metadata": {"resourceVersion": old["metadata"]["resourceVersion"]}, "spec": spec}
            for spec in ({"replicas": replicas}, old["spec"])
        ]
        self._review("UPDATE", views[1], views[0], at, subresource="scale")
        self._store(self._made({"spec": {"replicas": replicas}}, old, 1))

    def _unseen_spec(self, spec: dict[str, Any], at: float) -> None:
        """Stored while genguard was away."""
        self._store(self._made({"spec": spec}, self.stored[-1], 1))

    def _unseen_status(self, status: dict[str, Any], at: float) -> None:
        self._store(self._made({"status": status}, self.stored[-1], 0))

    def _is_there(self, found: dict[str, Any], at: float) -> None:
        """Was stored before genguard came."""
        self._store(self._made(found, {}, found.get("generation", 1)))

    def _watched(self, index: int, at: float) -> None:
        """A watch shows a state that was stored: -1 is the last."""
        found = self.stored[index]
        group, _, resource, kind = KINDS[self.resource]
        self.tracking.record_stored(group, resource, kind, fields_of(found), at)

    def _quiet(self, _: Any, at: float) -> None:
        """Nothing more is heard."""
        self.tracking.settle(at)

    def _delete(self, _: Any, at: float) -> None:
        self._review("DELETE", self.stored[-1], None, at)

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

    def _review(self, operation: str, old: Any, new: Any, at: float, **arguments: Any) -> None:
        asked = make_review(operation, self.resource, new, old, **arguments)
        if arguments.get("subresource") == "scale":
            asked["request"]["kind"] = {"group": "autoscaling", "version": "v1", "kind": "Scale"}
        if operation == "CREATE":
            asked["request"]["object"]["metadata"].pop("resourceVersion")
        # As the API server encodes it, in a review as in a watch.
        body = msgspec.json.encode(asked)
        verdict = review(body, Phase.OUTCOME, self.judge, at).verdict
        assert verdict.request is not None
        assert verdict.prediction is not None
        record_outcome(self.tracking, verdict.request, verdict.prediction, at)

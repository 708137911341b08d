"""An API server as far as Detection sees one: the writes of some objects, in every phase."""

import itertools
from collections.abc import Iterator
from typing import Any, Final

from genguard.admission.matching import read_configurations, read_policies
from genguard.admission.review import Phase
from genguard.detection.detection import Detection
from genguard.detection.finding import Finding
from genguard.detection.ledger import Row
from genguard.detection.mutators import Mutators
from genguard.generation import CustomResource, StatusSubresource
from tests.reviews import KINDS, make_dependencies, make_review
from tests.unit.detection.builders import INTENT, MUTATE, OUTCOME, reviewed, rows_of, see
from tests.unit.detection.evaluating import CONDITIONS
from tests.unit.detection.policies import apply, binding, patch, policy, rule
from tests.unit.detection.test_mutators import hook

PRESENT, ABSENT, UNKNOWN = StatusSubresource
_EVERYTHING: Final = ("*", "*/*")
_PINS: Final = policy(
    "pins",
    apply("Object{spec: {replicas: 1}, status: {phase: 'a', time: 'b', observedGeneration: 0}}"),
    patch('JSONPatch{path: "/status/terminatingReplicas"}'),
    conditions=("request.userInfo.username == 'gitops'",),
    rules=[rule(*_EVERYTHING)],
)
_DEPENDENCIES: Final = make_dependencies(
    audit_only=True,
    custom=[CustomResource(*KINDS["widgets"], PRESENT), CustomResource(*KINDS["gadgets"], ABSENT)],
)


class Story:
    """Two webhooks are registered for everything: `once`, and `twice` that asks to be reinvoked.

    A policy, `pins`, acts on writes of the user gitops, and sets all that the rows speak of.

    A step is one write, or `times` of them, `every` so many seconds; a list of these takes turns:

    at, by, to  when; who asks; the subresource, "" is the object itself; lists take turns
    pod         the pod of who asks; a list takes turns
    of          the name of the object, where it is not the only one; a list takes turns
    resource    of the object, where it is another one than that of the case
    owner       the uid of its owner, which is its name with "uid-of-" before it; a list takes turns
    asks        the top-level fields that the writer changes, and the fields of metadata; a list
                takes turns
    left        those that other webhooks have changed at /mutate; `again`: in round 1
    keeps       those that the server has made of it
    counts      the generation that the server gives it, where it is not the one that is predicted;
                "next" is one more than is stored
    then        what is stored soon afterwards, and nobody sees who has done it
    unseen      the intent was not seen
    refused     there is no outcome; lost: there is one, and another write came first
    base        upon which version it is written
    names       the version that the request names, where it is another one
    creates     a uid, and perhaps more metadata: an object is created in place of the update; a
                list takes turns. `left`, `again` and `refused` as above
    deletes     the same, of a deletion; `state` are the other fields of what is deleted

    "$generation" is the generation that is stored, "$before" one less, "$n" the number of the
    write, "$reached" the generation of the object that was written last.
    """

    def __init__(
        self, *only: str, resource: str, found: dict[str, Any], at_rest: bool = False
    ) -> None:
        hooks = hook("once", _EVERYTHING), hook("twice", _EVERYTHING, reinvocationPolicy="IfNeeded")
        self.mutators = Mutators(
            read_configurations(hooks), read_policies([_PINS, binding()]), conditions=CONDITIONS
        )
        self.detection = Detection(self.mutators, at_rest=at_rest)
        self._only = only
        self._usual = self._resource = resource
        self._numbers = itertools.count(1)
        self._now = 0.0
        self._reached = 1
        self._found = found
        self._objects: dict[str, dict[str, Any]] = {}
        self._select({})

    def play(self, step: dict[str, Any]) -> None:
        """One step."""
        asks = step.get("asks", {})
        turns = itertools.cycle(asks if isinstance(asks, list) else [asks])
        turning = step.keys() & {"by", "pod", "to", "of", "owner", "names"}
        named = {key: _cycle(step[key]) for key in turning}
        gaps = _cycle(step.get("every", 1))
        self._now = float(step["at"])
        for _ in range(step.get("times", 1)):
            names = {key: next(each) for key, each in named.items()}
            self._play({**step, **names}, turns)
            self._now += next(gaps)

    def _play(self, step: dict[str, Any], turns: Iterator[Any]) -> None:
        number, self._resource = str(next(self._numbers)), step.get("resource", self._usual)
        if "creates" in step:
            self._create({**step, "asks": next(turns)}, number)
        elif "deletes" in step:
            self._delete(step)
        else:
            self._write({**step, "asks": next(turns)}, number)

    def end(self) -> Iterator[Finding]:
        """A last write shows what was stored, and changes nothing."""
        self._write({"by": "nobody"}, str(next(self._numbers)))
        self.detection.finish(self._now)
        found = self.detection.findings()
        return (one for one in found if not self._only or one.detector in self._only)

    def rows(self) -> list[Row]:
        """All findings as they are saved."""
        return rows_of(self.detection.ledger)

    def _select(self, step: dict[str, Any]) -> None:
        """Go on with the object that a step is about."""
        self._name = step.get("of", "thing")
        if self._name not in self._objects:
            metadata = {"generation": 1, **self._found.get("metadata", {})}
            if "of" in step:
                metadata["uid"] = f"uid-of-{self._name}"
            if step.get("owner"):
                metadata["ownerReferences"] = [{"uid": step["owner"], "controller": True}]
            self._objects[self._name] = {**self._found, "metadata": metadata}
        self._stored = self._objects[self._name]

    def _write(self, step: dict[str, Any], number: str) -> None:
        self._select(step)
        old, base = self._stored, step.get("base", number)
        values = {"$generation": old["metadata"]["generation"], "$n": int(number)}
        values |= {"$reached": self._reached, "$before": values["$generation"] - 1}
        asked = _changed(old, _filled(step.get("asks", {}), values))
        left = _changed(asked, _filled(step.get("left", {}), values))
        last = _changed(left, _filled(step.get("again", {}), values))
        phases = [(MUTATE, left)] if "unseen" in step else [(INTENT, asked), (MUTATE, left)]
        phases += [(MUTATE, last)] if "again" in step else []
        for phase, new in phases:
            self._show(phase, step, new, base)
        if "refused" in step:
            return
        kept = _changed(last, _filled(step.get("keeps", {}), values))
        predicted = reviewed(self._review(step, kept, base), OUTCOME, _DEPENDENCIES).prediction
        counted = step.get("counts", predicted.generation or values["$generation"])
        counted = values["$generation"] + 1 if counted == "next" else counted
        kept["metadata"] = {**kept["metadata"], "generation": counted}
        self._show(OUTCOME, step, kept, base)
        if "lost" not in step:
            self._stored = _changed(kept, _filled(step.get("then", {}), values))
            self._objects[self._name] = self._stored
            self._reached = self._stored["metadata"]["generation"]

    def _create(self, step: dict[str, Any], number: str) -> None:
        metadata = {"uid": f"uid-{number}", **step["creates"]}
        asked = {"metadata": metadata, "spec": {"a": 1}, **step["asks"]}
        left = _changed(asked, step.get("left", {}))
        last = _changed(left, step.get("again", {}))
        again = [(MUTATE, last)] if "again" in step else []
        phases = [(INTENT, asked), (MUTATE, left), *again, (OUTCOME, last)]
        phases = [
            (phase, new) for phase, new in phases if phase is not INTENT or "unseen" not in step
        ]
        for phase, new in phases[: -1 if "refused" in step else None]:
            self._see(phase, self._living("CREATE", step, new, None))

    def _delete(self, step: dict[str, Any]) -> None:
        old = {"metadata": step["deletes"], "spec": {"a": 1}, **step.get("state", {})}
        self._see(OUTCOME, self._living("DELETE", step, None, old))

    def _living(self, operation: str, step: dict[str, Any], new: Any, old: Any) -> dict[str, Any]:
        name = (new or old)["metadata"].get("name", "thing")
        return make_review(
            operation,
            self._resource,
            new,
            old,
            name=name,
            user=step["by"],
            subresource=step.get("to", ""),
            dry_run="dry" in step,
        )

    def _see(self, phase: Phase, asked: dict[str, Any]) -> None:
        see(self.detection, phase, reviewed(asked, phase, _DEPENDENCIES), self._now)

    def _show(self, phase: Phase, step: dict[str, Any], new: dict[str, Any], base: str) -> None:
        self._see(phase, self._review(step, new, base))

    def _review(self, step: dict[str, Any], new: dict[str, Any], base: str) -> dict[str, Any]:
        at = {"resourceVersion": base}
        return make_review(
            "UPDATE",
            self._resource,
            {**new, "metadata": {**new["metadata"], "resourceVersion": step.get("names", base)}},
            {**self._stored, "metadata": {**self._stored["metadata"], **at}},
            subresource=step.get("to", ""),
            name=self._name,
            user=step["by"],
            pod=step.get("pod", ""),
        )


def _changed(obj: dict[str, Any], fields: dict[str, Any]) -> dict[str, Any]:
    return {**obj, **fields, "metadata": {**obj["metadata"], **fields.get("metadata", {})}}


def _cycle(value: Any) -> Iterator[Any]:
    return itertools.cycle(value if isinstance(value, list) else [value])


def _filled(value: Any, values: dict[str, int]) -> Any:
    if isinstance(value, dict):
        return {key: _filled(one, values) for key, one in value.items()}
    if isinstance(value, list):
        return [_filled(one, values) for one in value]
    return values.get(value, value) if isinstance(value, str) else value

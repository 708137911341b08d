"""Which configurations can change the object, and where the observers between them stand.

Relies  on webhook.detection.suspects for which webhook is called for what. Labels of the object
        are left out of that: a write can change them, and a configuration between two observers
        that was thought idle would put its deeds on its neighbour.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final
from urllib.parse import quote

from webhook.detection.matching import Matched
from webhook.detection.suspects import TRACE_LABEL, Registered, matches, read_configurations
from webhook.objects.served import collection_path
from webhook.trace.names import between

RUN_LABEL: Final = TRACE_LABEL
"""On every configuration that a trace makes; its value is the run that made it."""


@dataclass(frozen=True, slots=True)
class Traced:
    """The object to watch, and what of it can be written."""

    group: str
    version: str
    resource: str
    kind: str
    namespace: str  # "" for an object without
    name: str
    uid: str
    has_status: bool  # a status subresource

    @property
    def subresources(self) -> tuple[str, ...]:
        """Those that are watched; "" is the object itself."""
        return ("", "status") if self.has_status else ("",)

    def path(self, subresource: str = "") -> str:
        """Where the API server has the object, or a subresource of it."""
        collection = collection_path(self.group, self.version, self.resource, self.namespace)
        tail = f"/{subresource}" if subresource else ""
        return f"{collection}/{quote(self.name, safe=':')}{tail}"

    def __str__(self) -> str:
        """As people write it: deployments.apps/web in namespace shop."""
        resource = f"{self.resource}.{self.group}" if self.group else self.resource
        where = f" in namespace {self.namespace}" if self.namespace else ""
        return f"{resource}/{self.name}{where}"


@dataclass(frozen=True, slots=True)
class Candidate:
    """A configuration that may change the object: its webhooks by the subresource they match."""

    configuration: str
    webhooks: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Slot:
    """Candidates, and the observer that is called right after them.

    More than one candidate: no name sorts in between. No observer: none sorts there at all.
    """

    candidates: tuple[Candidate, ...]
    observer: str | None


@dataclass(frozen=True, slots=True)
class Plan:
    """Slot 0 has no candidate: its observer comes before all of them."""

    run: str
    traced: Traced
    slots: tuple[Slot, ...]

    @property
    def observers(self) -> dict[int, str]:
        """Position → the name of its configuration."""
        return {n: slot.observer for n, slot in enumerate(self.slots) if slot.observer is not None}

    @property
    def candidates(self) -> tuple[Candidate, ...]:
        """In the order of calls."""
        return tuple(one for slot in self.slots for one in slot.candidates)


def make_plan(documents: Sequence[Mapping[str, Any]], traced: Traced, run: str) -> Plan:
    """Read MutatingWebhookConfigurations and choose the observers' names."""
    observed = [one for one in documents if not is_observer(one)]
    found = _candidates(read_configurations(observed), traced)
    names = sorted(one["metadata"]["name"] for one in documents)
    first = found[0].configuration if found else None
    slots = [Slot((), between("", first, run))]
    waiting: list[Candidate] = []
    for candidate in found:
        waiting.append(candidate)
        following = next((name for name in names if name > candidate.configuration), None)
        observer = between(candidate.configuration, following, run)
        if observer is not None:
            slots.append(Slot(tuple(waiting), observer))
            waiting = []
    if waiting:
        slots.append(Slot(tuple(waiting), None))
    return Plan(run, traced, tuple(slots))


def is_observer(document: Mapping[str, Any]) -> bool:
    """Whether a trace made it, this one or another."""
    return RUN_LABEL in (document["metadata"].get("labels") or {})


def _candidates(registered: Sequence[Registered], traced: Traced) -> list[Candidate]:
    found: dict[str, dict[str, tuple[str, ...]]] = {}
    for one in registered:
        for subresource in traced.subresources:
            if matches(replace(one, object_selector=None), _update(traced, subresource)):
                hooks = found.setdefault(one.configuration, {})
                hooks[subresource] = (*hooks.get(subresource, ()), one.webhook)
    return [Candidate(name, hooks) for name, hooks in found.items()]


def _update(traced: Traced, subresource: str) -> Matched:
    return Matched(
        group=traced.group,
        version=traced.version,
        resource=traced.resource,
        subresource=subresource,
        operation="UPDATE",
        namespace=traced.namespace,
        name=traced.name,
        labels={},
        old_labels={},
    )

"""Find the configurations that can change the object, and build those of the observers between.

Relies  on genguard.admission.matching for which webhook is called for a write. Labels of the object
        are not known there. A write can change them, and then a configuration that was thought idle
        acts between two observers, and its neighbour would be blamed.

Names   The API server calls mutating webhooks in the byte order of their configurations' names
        (apiserver pkg/admission/configuration/mutating_webhook_manager.go). A name is a DNS-1123
        subdomain of at most 253 characters (apimachinery pkg/util/validation/validation.go,
        IsDNS1123Subdomain); a label may have any length. "-" sorts before every other character
        that a name can hold.

An observer matches one object, blocks no write, and expires. With failurePolicy Ignore, a timeout
of 2 seconds and an answer without a patch, writes of the object succeed even if the observer fails.
namespaceSelector and matchConditions keep the API server from calling it for any other object.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import quote

from genguard.admission.matching import NAME_LABEL, TRACE_LABEL, Matched, read_configurations
from genguard.objects.selectors import Truth
from genguard.objects.served import Served
from genguard.shipped import shipped

RUN_LABEL: Final = TRACE_LABEL
"""The label of every configuration that a trace makes. Its value is the id of the run."""

EXPIRES: Final = "genguard.io/trace-expires"
"""The RFC 3339 time from which any run may delete the configuration."""
OWNER: Final = "genguard.io/trace-owner"
"""The process that made it, as `webhook.cluster.tracing` writes it."""

LONGEST: Final = 253
_ALNUM: Final = "0123456789abcdefghijklmnopqrstuvwxyz"
_LABEL: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN: Final = re.compile(rf"{_LABEL}(\.{_LABEL})*")


@dataclass(frozen=True, slots=True)
class Traced:
    """The object to watch; its namespace is "" where it is cluster-scoped."""

    served: Served
    namespace: str
    name: str
    uid: str = ""

    @property
    def subresources(self) -> tuple[str, ...]:
        """The subresources to watch; "" is the object itself."""
        return ("", "status") if self.served.has_status else ("",)

    def path(self, subresource: str = "") -> str:
        """The API path of the object, or of one of its subresources."""
        tail = f"/{subresource}" if subresource else ""
        return f"{self.served.path(self.namespace)}/{quote(self.name, safe=':')}{tail}"

    def write(self, operation: str, subresource: str = "") -> Matched:
        """Such a write of the object, as rules and selectors read it."""
        kind = self.served.group, self.served.version, self.served.resource
        return Matched(*kind, subresource, operation, self.namespace, self.name)

    def __str__(self) -> str:
        """For people: `deployments.apps/web in namespace shop`."""
        where = f" in namespace {self.namespace}" if self.namespace else ""
        return f"{self.served}/{self.name}{where}"


@dataclass(frozen=True, slots=True)
class Candidate:
    """A configuration that may change the object, with its webhooks by matched subresource."""

    configuration: str
    webhooks: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Slot:
    """Candidates, and the name of the observer that is called right after them.

    Several candidates share a slot where no name sorts between them. `observer` is None where no
    name sorts after the last of them.
    """

    candidates: tuple[Candidate, ...]
    observer: str | None


@dataclass(frozen=True, slots=True)
class Plan:
    """The slots of one run, in call order. The observer of slot 0 comes before all candidates."""

    run: str
    traced: Traced
    slots: tuple[Slot, ...]
    at_creation: tuple[str, ...] = ()  # the webhooks that no observer is near

    @property
    def observers(self) -> dict[int, str]:
        """The names of the observers' configurations, by position."""
        return {n: slot.observer for n, slot in enumerate(self.slots) if slot.observer is not None}

    @property
    def candidates(self) -> tuple[Candidate, ...]:
        """All candidates in call order."""
        return tuple(candidate for slot in self.slots for candidate in slot.candidates)


def make_plan(documents: Sequence[Mapping[str, Any]], traced: Traced, run: str) -> Plan:
    """Read all MutatingWebhookConfigurations and choose the names of the observers."""
    found = _candidates(documents, traced)
    names = sorted(document["metadata"]["name"] for document in documents)
    first = found[0].configuration if found else None
    slots = [Slot((), between("", first, run))]
    waiting: list[Candidate] = []
    for candidate in found:
        waiting.append(candidate)
        successor = next((name for name in names if name > candidate.configuration), None)
        observer = between(candidate.configuration, successor, run)
        if observer is not None:
            slots.append(Slot(tuple(waiting), observer))
            waiting = []
    if waiting:
        slots.append(Slot(tuple(waiting), None))
    return Plan(run, traced, tuple(slots), acting(documents, traced, "CREATE"))


def is_observer(document: Mapping[str, Any]) -> bool:
    """Whether this or another trace made the configuration."""
    return RUN_LABEL in (document["metadata"].get("labels") or {})


def changed(
    before: Sequence[Mapping[str, Any]], after: Sequence[Mapping[str, Any]], traced: Traced
) -> list[str]:
    """Return the names of candidates that were added, removed or edited meanwhile.

    What could act on the object neither before nor after is of no concern.
    """
    return sorted({name for name, *_ in _versions(before, traced) ^ _versions(after, traced)})


def _versions(documents: Sequence[Mapping[str, Any]], traced: Traced) -> set[tuple[str, str, int]]:
    acting = {candidate.configuration for candidate in _candidates(documents, traced)}
    every = (document["metadata"] for document in documents if not is_observer(document))
    known = (meta for meta in every if meta["name"] in acting)
    return {(meta["name"], meta["uid"], meta.get("generation", 0)) for meta in known}


def _candidates(documents: Iterable[Any], traced: Traced) -> list[Candidate]:
    found: dict[str, dict[str, tuple[str, ...]]] = {}
    for registration in read_configurations(documents):
        for subresource in traced.subresources:
            if registration.covers(traced.write("UPDATE", subresource)) is not Truth.FALSE:
                hooks = found.setdefault(registration.configuration, {})
                hooks[subresource] = (*hooks.get(subresource, ()), registration.webhook)
    return [Candidate(name, hooks) for name, hooks in found.items()]


def acting(
    documents: Iterable[Any], traced: Traced, *operations: str, subresource: str = ""
) -> tuple[str, ...]:
    """Return the webhooks of others that may change such writes, in the order of their calls."""
    writes = [traced.write(operation, subresource) for operation in operations]
    others = (
        registration for registration in read_configurations(documents) if not registration.phase
    )
    return tuple(
        other.name
        for other in others
        if any(other.covers(each) is not Truth.FALSE for each in writes)
    )


def is_valid(name: str) -> bool:
    """Whether the API server accepts this name for a configuration."""
    return len(name) <= LONGEST and _SUBDOMAIN.fullmatch(name) is not None


def between(after: str, before: str | None, run: str) -> str | None:
    """Return a name that sorts after one name and before the other; None if no such name exists.

    `after` "" means the beginning, `before` None the end. It prefers a name with "genguard-trace"
    and the run in it. Neighbours at the length limit leave room for fewer characters.
    """
    for name in _proposals(after, before, (f"genguard-trace-{run}", run, "0")):
        if after < name and (before is None or name < before) and is_valid(name):
            return name
    return None


def _proposals(after: str, before: str | None, tails: tuple[str, ...]) -> Iterator[str]:
    """Nearest names first: `after` extended, then shorter prefixes with the next character."""
    if after:
        yield from _longer(after, tails)
    for length in range(len(after), -1, -1):
        least = after[length] if length < len(after) else ""
        for character in _ALNUM:
            head = after[:length] + character
            if before is not None and head >= before:
                break
            if character > least:
                yield from _longer(head, tails)
                yield head


def _longer(head: str, tails: tuple[str, ...]) -> Iterator[str]:
    # More hyphens sort earlier: "a--x" comes before an existing "a-b".
    for tail in tails:
        for hyphens in range(1, LONGEST - len(head) - len(tail) + 1):
            yield head + "-" * hyphens + tail


def registrations(
    plan: Plan, url: str, ca_bundle: str, owner: str, expires: datetime
) -> Iterator[dict[str, Any]]:
    """Build the MutatingWebhookConfigurations of a plan.

    url        where the API server calls the observers
    ca_bundle  base64 of PEM
    """
    for position, name in plan.observers.items():
        yield {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "MutatingWebhookConfiguration",
            "metadata": {
                "name": name,
                "labels": {RUN_LABEL: plan.run},
                "annotations": {EXPIRES: expires.strftime("%Y-%m-%dT%H:%M:%SZ"), OWNER: owner},
            },
            "webhooks": [_webhook(plan.traced, f"{url}/{position}", ca_bundle)],
        }


def _webhook(traced: Traced, url: str, ca_bundle: str) -> dict[str, Any]:
    resource = traced.served.resource
    rule = {
        "apiGroups": [traced.served.group],
        "apiVersions": [traced.served.version],
        "operations": ["UPDATE"],
        "resources": [
            f"{resource}/{subresource}".rstrip("/") for subresource in traced.subresources
        ],
    }
    names = {NAME_LABEL: traced.namespace} if traced.namespace else {}
    return {
        **shipped("genguard.trace", "observer.yaml", dict[str, Any]),
        "clientConfig": {"url": url, "caBundle": ca_bundle},
        "rules": [rule],
        "namespaceSelector": {"matchLabels": names},
        "matchConditions": [{"name": "this-object", "expression": _condition(traced)}],
    }


def _condition(traced: Traced) -> str:
    """The CEL expression for one object. It reads oldObject, since a PUT may omit the uid."""
    parts = {"request.name": traced.name, "oldObject.metadata.uid": traced.uid}
    if traced.namespace:  # reading an absent request.namespace is an error in CEL
        parts["request.namespace"] = traced.namespace
    # A JSON string is a valid CEL string unless it holds surrogate pairs: hence ensure_ascii=False.
    return " && ".join(f"{k} == {json.dumps(v, ensure_ascii=False)}" for k, v in parts.items())


def has_expired(document: dict[str, Any], now: datetime) -> bool:
    """Whether anyone may delete this configuration: its time has passed or cannot be read."""
    text = (document["metadata"].get("annotations") or {}).get(EXPIRES, "")
    try:
        expires = datetime.fromisoformat(text)
    except ValueError:
        return True
    return (expires if expires.tzinfo else expires.replace(tzinfo=UTC)) <= now

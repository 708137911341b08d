"""Makes a recorded write of what a server has kept of one: its fields in four states."""

from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any, Final

from genguard.detection.finding import Finding
from genguard.detection.sample import ShownValue, WriteDiff
from genguard.generation.table import kind_of
from genguard.objects.fields import from_pointer
from genguard.reproduce.recorded import Document, RecordedWrite

_STATES: Final = {"before": "oldObject", "asked": "object", "left": "object", "stored": "object"}
_PHASES: Final = {"asked": "intent", "left": "mutate", "stored": "outcome"}
_ABSENT: Final = object()


def sampled(found: Finding, diff: WriteDiff) -> RecordedWrite:
    """Return the write of a finding's sample; a letter stands for a value that is not shown."""
    where = found.subject
    kind = kind_of(where.group, where.resource) or where.resource.removesuffix("s").capitalize()
    named = {"group": where.group, "version": where.version}
    states = {state: _object(found, diff, state, kind) for state in _STATES}
    begun = datetime.fromisoformat(diff.time)
    lines = []
    for number, (state, phase) in enumerate(_PHASES.items()):
        request = {
            "uid": str(number),
            "kind": {**named, "kind": kind},
            "resource": {**named, "resource": where.resource},
            "subResource": found.subresource,
            "name": where.name,
            "namespace": where.namespace,
            "operation": "UPDATE",
            "userInfo": {"username": diff.user},
            "object": states[state],
            "oldObject": states["before"],
            "dryRun": False,
            "options": {"fieldManager": diff.field_manager},
        }
        time = (begun + timedelta(milliseconds=number)).isoformat()
        review = {
            "kind": "AdmissionReview",
            "apiVersion": "admission.k8s.io/v1",
            "request": {key: value for key, value in request.items() if value != ""},
        }
        lines.append({"time": time, "phase": phase, "review": review})
    return tuple(lines)


def _object(found: Finding, diff: WriteDiff, state: str, kind: str) -> Document:
    where = found.subject
    metadata: Document = {"name": where.name, "uid": where.uid, "resourceVersion": "1"}
    if where.namespace:
        metadata["namespace"] = where.namespace
    document: Document = {"apiVersion": where.api_version, "kind": kind, "metadata": metadata}
    numbers = [1]
    for one in diff.fields:
        value = _value(getattr(one, state))
        if value is _ABSENT:
            continue
        _put(document, from_pointer(one.path), value)
        if one.path.endswith("/observedGeneration") and isinstance(value, int):
            numbers.append(value)
    metadata["generation"] = max(numbers)
    return document


def _value(shown: ShownValue | None) -> Any:
    if shown is None or shown.absent:
        return _ABSENT
    return f"value-{shown.hidden}" if shown.hidden else shown.value


def _put(document: Document, path: tuple[str, ...], value: Any) -> None:
    """Set a field, and make what it is in; a number in a path is a place in a list."""
    inner: Any = document
    for name, below in pairwise(path):
        empty: Any = [] if below.isdecimal() else {}
        inner = _step(inner, name, empty)
    _set(inner, path[-1], value)


def _step(inner: Any, name: str, empty: Any) -> Any:
    if isinstance(inner, list):
        inner += [{} for _ in range(int(name) + 1 - len(inner))]
        return inner[int(name)]
    return inner.setdefault(name, empty)


def _set(inner: Any, name: str, value: Any) -> None:
    if isinstance(inner, list):
        inner += [None for _ in range(int(name) + 1 - len(inner))]
        inner[int(name)] = value
    else:
        inner[name] = value

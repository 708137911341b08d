"""The writes of a recording: the lines that belong to one write, as documents."""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any, Final, NamedTuple

from genguard.detection.finding import Finding
from genguard.detection.sample import ShownValue, WriteDiff
from genguard.generation.table import kind_of
from genguard.objects.fields import from_pointer
from genguard.replay import Replay

Document = dict[str, Any]
RecordedWrite = tuple[Document, ...]
"""The lines `{"time", "phase", "review"}` of one write, in the order in which they were shown."""
NewReplay = Callable[[], Replay]
"""Makes a replay that has seen nothing yet."""
_SHOWN: Final = ("object", "oldObject")


class Sought(NamedTuple):
    """What tells that a finding is the same one, in a recording with fewer writes.

    actor  the first; None for anybody
    """

    detector: str
    place: tuple[str, ...]
    subresource: str
    actor: tuple[str, str] | None
    paths: frozenset[str]

    @classmethod
    def of(cls, found: Finding) -> "Sought":
        """Return what to look for."""
        where = found.subject
        place = (where.group, where.resource, where.namespace, where.name)
        first = next(iter(found.actors), None)
        actor = None if first is None else (first.type, first.name)
        return cls(found.detector, place, found.subresource, actor, frozenset(found.paths))

    def is_of(self, write: RecordedWrite) -> bool:
        """Whether a write is of the object of the finding."""
        request = request_of(write[0])
        group, resource = (request["resource"].get(key, "") for key in ("group", "resource"))
        return self.place == (group, resource, request.get("namespace", ""), name_of(request))

    def matches(self, other: "Sought") -> bool:
        """Whether another finding is the same: of its fields one is enough."""
        is_same = self._replace(paths=other.paths, actor=other.actor) == other and (
            self.actor is None or self.actor == other.actor
        )
        return is_same and (self.paths == other.paths or bool(self.paths & other.paths))


def request_of(line: Document) -> Document:
    """Return the AdmissionRequest of a line."""
    request: Document = line["review"]["request"]
    return request


def objects_of(line: Document) -> Iterator[Document]:
    """Yield the objects of a line that are there."""
    request = request_of(line)
    yield from (request[key] for key in _SHOWN if request.get(key))


def name_of(request: Document) -> str:
    """Return the name of the object; a create may have it in the object alone."""
    named = request.get("name") or ((request.get("object") or {}).get("metadata") or {}).get("name")
    return str(named or "")


def place_of(request: Document) -> tuple[str, str, str, str]:
    """Return what is written: `deployments.apps`, the subresource, namespace and name."""
    resource = request["resource"]
    plural = f"{resource['resource']}.{resource.get('group', '')}".rstrip(".")
    below = request.get("subResource", "")
    return plural, below, request.get("namespace", ""), name_of(request)


def object_of(write: RecordedWrite) -> tuple[str, str, str]:
    """Return which object is written: `deployments.apps`, namespace and name."""
    plural, _, namespace, name = place_of(request_of(write[0]))
    return plural, namespace, name


def user_of(write: RecordedWrite) -> str:
    """Return who writes; "" where the review does not say it."""
    return str((request_of(write[0]).get("userInfo") or {}).get("username", ""))


def asked(write: RecordedWrite) -> tuple[Document, Document]:
    """Return what was stored, and what the requester sent."""
    request = request_of(write[0])
    return request.get("oldObject") or {}, request.get("object") or {}


def is_refused(write: RecordedWrite) -> bool:
    """Whether a write has no outcome: somebody refused it. A delete has none."""
    return bool(write[-1]["phase"] != "outcome" and request_of(write[0])["operation"] != "DELETE")


def generations(write: RecordedWrite) -> tuple[int, int]:
    """Return the generation before a write and after it; 0 where there is none."""
    before, after = request_of(write[0]).get("oldObject"), request_of(write[-1]).get("object")
    found = [((one or {}).get("metadata") or {}).get("generation", 0) for one in (before, after)]
    return int(found[0]), int(found[1])


class Recorded(NamedTuple):
    """The writes of a recording, and what is wrong with the lines that were left out."""

    writes: list[RecordedWrite]
    faults: list[str]


def writes_of(lines: Iterable[bytes]) -> Recorded:
    """Return the writes of a recording. A bare AdmissionReview is a write of its own."""
    writes: list[list[Document]] = []
    faults: list[str] = []
    open_by_key: dict[tuple[str, ...], list[Document]] = {}
    for number, raw in enumerate(lines, start=1):
        if not raw.strip():
            continue
        try:
            line = _line(raw, number)
        except ValueError as error:
            faults.append(str(error))
            continue
        key = _key(request_of(line))
        group = open_by_key.get(key)
        if group is None or line["phase"] == "intent":
            group = open_by_key[key] = []
            writes.append(group)
        group.append(line)
        if line["phase"] == "outcome":
            del open_by_key[key]
    return Recorded([tuple(one) for one in writes], faults)


def _line(raw: bytes, number: int) -> Document:
    try:
        line = json.loads(raw)
        if "request" in line:
            line = {"time": "1970-01-01T00:00:00Z", "phase": "mutate", "review": line}
        _key(request_of(line))
        moment(line["time"])
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise ValueError(f"line {number} is no recorded AdmissionReview") from None
    found: Document = line
    return found


def _key(request: Document) -> tuple[str, ...]:
    """Return what the phases of one write have in common: see genguard/admission/review.py."""
    old = (request.get("oldObject") or {}).get("metadata") or {}
    resource = request["resource"]
    return (
        resource.get("group", ""),
        resource.get("resource", ""),
        request.get("subResource", ""),
        request.get("namespace", ""),
        request.get("name", ""),
        request.get("operation", ""),
        (request.get("userInfo") or {}).get("username", ""),
        old.get("resourceVersion", ""),
        str(request.get("dryRun")),
    )


def encode(writes: Iterable[RecordedWrite]) -> list[bytes]:
    """Return the lines of a recording, in the order of their times."""
    lines = sorted(
        (line for write in writes for line in write), key=lambda one: moment(one["time"])
    )
    return [json.dumps(one, separators=(",", ":")).encode() for one in lines]


def moment(text: str) -> datetime:
    """Return a time; one without an offset is in UTC. Raises ValueError."""
    at = datetime.fromisoformat(text)
    return at if at.tzinfo else at.replace(tzinfo=UTC)


def findings_in(writes: Sequence[RecordedWrite], new_replay: NewReplay) -> list[Finding]:
    """Return what is found in these writes, those folded beneath others as well."""
    replay = new_replay()
    for _ in replay.lines(encode(writes), "recording"):
        pass
    return replay.found()


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

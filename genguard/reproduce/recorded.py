"""The writes of a recording: the lines that belong to one write, as documents."""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from genguard.detection.finding import Finding
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

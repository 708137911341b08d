"""The writes of a recording: the lines that belong to one write, as documents."""

import json
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from genguard.detection.finding import Finding
from genguard.objects.served import resource_name
from genguard.replay import Replay

Document = dict[str, Any]


class RecordedWrite(tuple[Document, ...]):
    """The lines `{"time", "phase", "review"}` of one write, in the order of their phases."""

    __slots__ = ()

    @property
    def request(self) -> Document:
        """The AdmissionRequest of its first line."""
        return request_of(self[0])

    @property
    def object(self) -> tuple[str, str, str]:
        """Which object is written: `deployments.apps`, namespace and name."""
        plural, _, namespace, name = location_of(self.request)
        return plural, namespace, name

    @property
    def user(self) -> str:
        """Who writes; "" where the review does not say it."""
        return str((self.request.get("userInfo") or {}).get("username", ""))

    @property
    def asked(self) -> tuple[Document, Document]:
        """What was stored, and what the requester sent."""
        return self.request.get("oldObject") or {}, self.request.get("object") or {}

    @property
    def is_refused(self) -> bool:
        """Whether it has no outcome: somebody refused it. A delete has none."""
        return bool(self[-1]["phase"] != "outcome" and self.request["operation"] != "DELETE")

    @property
    def generations(self) -> tuple[int, int]:
        """The generation before it and after it; 0 where there is none."""
        before, after = self.request.get("oldObject"), request_of(self[-1]).get("object")
        found = [((x or {}).get("metadata") or {}).get("generation", 0) for x in (before, after)]
        return int(found[0]), int(found[1])


NewReplay = Callable[[], Replay]
"""Makes a replay that has seen nothing yet."""


class NotFoundError(ValueError):
    """The recording does not give the finding."""


def request_of(line: Document) -> Document:
    """Return the AdmissionRequest of a line."""
    request: Document = line["review"]["request"]
    return request


def location_of(request: Document) -> tuple[str, str, str, str]:
    """Return what is written: `deployments.apps`, the subresource, namespace and name.

    A create may have its name in the object alone.
    """
    resource = request["resource"]
    plural = resource_name(resource.get("group", ""), resource["resource"])
    named = request.get("name") or ((request.get("object") or {}).get("metadata") or {}).get("name")
    return plural, request.get("subResource", ""), request.get("namespace", ""), str(named or "")


def what_of(found: Finding) -> tuple[str, tuple[str, str, str], str]:
    """Return what is found, of which object, as a write says it, and its subresource."""
    where = found.subject
    return found.detector, (where.resource_name, where.namespace, where.name), found.subresource


def writes_of(lines: Iterable[bytes]) -> tuple[list[RecordedWrite], list[str]]:
    """Return the writes of a recording, and what is wrong with the lines that were left out.

    A bare AdmissionReview is a write of its own.
    """
    writes: list[list[Document]] = []
    faults: list[str] = []
    open_by_key: dict[tuple[str, ...], list[Document]] = {}
    for number, raw in enumerate(lines, start=1):
        if not raw.strip():
            continue
        try:
            line = json.loads(raw)
            if "request" in line:
                line = {"time": "1970-01-01T00:00:00Z", "phase": "mutate", "review": line}
            key = _key(request_of(line))
            moment(line["time"])
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            faults.append(f"line {number} is no recorded AdmissionReview")
            continue
        if key not in open_by_key or line["phase"] == "intent":
            open_by_key[key] = []
            writes.append(open_by_key[key])
        open_by_key[key].append(line)
        if line["phase"] == "outcome":
            del open_by_key[key]
    return [*map(RecordedWrite, writes)], faults


def _key(request: Document) -> tuple[str, ...]:
    """Return what the phases of one write have in common: see genguard/admission/review.py."""
    old = (request.get("oldObject") or {}).get("metadata") or {}
    user = (request.get("userInfo") or {}).get("username", "")
    said = request.get("operation", ""), user, old.get("resourceVersion", "")
    return (*location_of(request), *said, str(request.get("dryRun")))


def encode(writes: Iterable[RecordedWrite]) -> list[bytes]:
    """Return the lines of a recording, in the order of their times."""
    lines = sorted(
        (line for write in writes for line in write), key=lambda line: moment(line["time"])
    )
    return [json.dumps(line, separators=(",", ":")).encode() for line in lines]


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

"""The writes of a recording: the lines that belong to one write, as documents."""

import json
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from genguard.detection.finding import Finding
from genguard.objects.served import resource_name
from genguard.replay import Replay

Document = dict[str, Any]
RecordedWrite = tuple[Document, ...]
"""The lines `{"time", "phase", "review"}` of one write, in the order in which they were shown."""
NewReplay = Callable[[], Replay]
"""Makes a replay that has seen nothing yet."""


class NotFoundError(ValueError):
    """The recording does not give the finding."""


def request_of(line: Document) -> Document:
    """Return the AdmissionRequest of a line."""
    request: Document = line["review"]["request"]
    return request


def place_of(request: Document) -> tuple[str, str, str, str]:
    """Return what is written: `deployments.apps`, the subresource, namespace and name.

    A create may have its name in the object alone.
    """
    resource = request["resource"]
    plural = resource_name(resource.get("group", ""), resource["resource"])
    named = request.get("name") or ((request.get("object") or {}).get("metadata") or {}).get("name")
    return plural, request.get("subResource", ""), request.get("namespace", ""), str(named or "")


def object_of(write: RecordedWrite) -> tuple[str, str, str]:
    """Return which object is written: `deployments.apps`, namespace and name."""
    plural, _, namespace, name = place_of(request_of(write[0]))
    return plural, namespace, name


def what_of(found: Finding) -> tuple[str, tuple[str, str, str], str]:
    """Return what is found, of which object, as `object_of` says it, and its subresource."""
    where = found.subject
    return found.detector, (where.resource_name, where.namespace, where.name), found.subresource


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
    return [tuple(one) for one in writes], faults


def _key(request: Document) -> tuple[str, ...]:
    """Return what the phases of one write have in common: see genguard/admission/review.py."""
    old = (request.get("oldObject") or {}).get("metadata") or {}
    user = (request.get("userInfo") or {}).get("username", "")
    said = request.get("operation", ""), user, old.get("resourceVersion", "")
    return (*place_of(request), *said, str(request.get("dryRun")))


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

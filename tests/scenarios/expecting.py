"""What replay finds in a scenario, and what it should: recall, the right actor, no false alarm."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import yaml

from genguard.replay import Replay
from genguard.review_setup import ReviewOptions
from tests.scenarios import recording
from tests.unit.detection.evaluating import CONDITIONS
from webhook.files.given import load_definitions, load_mutators

EXPECTATIONS = Path(__file__).with_name("expectations.yaml")
REPEATS = 10
SECONDS = 5.0
_ORDER = ("info", "warning", "critical")
_REFUSED = 400
_SURE = ("certain", "likely")

Found = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Expected:
    """One finding that must be there, and the worst that is said of anything else."""

    because: str
    find: tuple[Found, ...] = ()
    also: tuple[str, ...] = ()
    blameless: tuple[str, ...] = ()


@dataclass(slots=True)
class Result:
    """The findings at the end, and when each became a warning and was resolved."""

    findings: list[Found]
    warned: dict[str, "Moment"] = field(default_factory=dict)
    resolved: dict[str, float] = field(default_factory=dict)

    def resolved_too_early(self) -> list[str]:
        """Return the findings that had another sign after they were resolved."""
        return [
            summary(one)
            for one in self.findings
            if _seconds(one["lastSeen"]) > self.resolved.get(one["id"], float("inf"))
        ]


@dataclass(frozen=True, slots=True)
class Moment:
    """Since the first update of the same object and subresource: writes of it, and seconds."""

    writes: int
    seconds: float


def expectations() -> dict[str, Expected]:
    """expectations.yaml by scenario."""
    loaded = yaml.load(EXPECTATIONS.read_text(), yaml.CSafeLoader)
    return {
        name: Expected(
            one["because"],
            tuple(one.get("find", ())),
            tuple(one.get("also", ())),
            tuple(one.get("blameless", ())),
        )
        for name, one in loaded.items()
    }


def examine(lines: Iterable[bytes], webhooks: Path | None, server_version: str = "1.36") -> Result:
    """Replays reviews or audit events of a recording one by one, as they happened."""
    definitions = load_definitions(recording.DEFINITIONS)
    mutators = None if webhooks is None else load_mutators(webhooks, CONDITIONS)
    options = ReviewOptions(server_version=server_version, custom_resources=definitions)
    run = Replay(options, mutators)
    seen: dict[tuple[str, str, str], tuple[float, int]] = {}
    result = Result([])
    begun: float | None = None
    for line in lines:
        told = list(run.lines([line], "recording"))
        assert all(one["type"] == "review" for one in told), told
        now, where, is_stored = _written(json.loads(line))
        begun = now if begun is None else begun
        run._detection.resolve_quiet(now)
        for finding in run._detection.findings():
            if finding.state == "resolved":
                result.resolved.setdefault(finding.id, now)
        if where is not None:
            start, count = seen.get(where, (now, 0))
            seen[where] = start, count + is_stored
        for finding in (*run._detection.findings(), *run._audit._detection.findings()):
            if finding.severity == "info" or finding.id in result.warned:
                continue
            found = finding.object
            where = (found.resource, finding.subresource, found.name)
            # Of what is created or deleted: since the beginning, and one by one.
            start, count = seen.get(where, (begun, finding.count))
            result.warned[finding.id] = Moment(count, now - start)
    result.findings = list(run.findings())
    assert not run.unreadable
    return result


def complaints(
    result: Result, expected: Expected, *, is_of_audit_log: bool = False
) -> Iterator[str]:
    """Everything that is not as expected.

    An audit log says which webhook changed what: what is likely from reviews is certain there.
    """
    matched: set[str] = set()
    for wanted in expected.find:
        meant = _as_of_audit_log(wanted) if is_of_audit_log else wanted
        found = [one for one in result.findings if _is_wanted(one, meant)]
        if not found:
            yield f"not found: {wanted}"
        for one in found:
            matched.add(one["id"])
            yield from _complaints_of_cause(one, wanted, result)
            if not wanted.get("late"):
                yield from _complaints_of_time(one, result)
    for one in result.findings:
        if one["severity"] == "info":
            continue
        if one["id"] not in matched and one["detector"] not in expected.also:
            yield f"false: {summary(one)}"
        for actor in one["actors"]:
            if actor["name"] in expected.blameless and actor["confidence"] in _SURE:
                yield f"blames {actor['name']}: {summary(one)}"


def _complaints_of_time(found: Found, result: Result) -> Iterator[str]:
    moment = result.warned.get(found["id"])
    if moment and moment.writes > REPEATS and moment.seconds > SECONDS:
        yield f"{found['detector']} came late: {moment}"


def _complaints_of_cause(found: Found, wanted: Found, result: Result) -> Iterator[str]:
    if "causedBy" not in wanted:
        if "causedBy" in found:
            yield f"is folded: {summary(found)}"
        return
    roots = {one["id"] for one in result.findings if one["detector"] == wanted["causedBy"]}
    if found.get("causedBy") not in roots:
        yield f"stands alone: {summary(found)}"
    elif found["id"] in result.warned:
        yield f"was a warning before it was folded: {summary(found)}"


def summary(found: Found) -> str:
    """One line of one finding."""
    named = (
        " ".join(one[key] for key in ("type", "name", "confidence")) for one in found["actors"]
    )
    actors = ", ".join(named)
    resource = "/".join(filter(None, (found["object"]["resource"], found["subresource"])))
    return (
        f"{found['severity']} {found['detector']} {resource} {found['object']['name']} "
        f"{found['count']}x {','.join(found['paths'][:3])} by [{actors}]: {found['message']}"
    )


def _as_of_audit_log(wanted: Found) -> Found:
    actor = wanted.get("actor")
    if isinstance(actor, dict) and actor["type"] == "webhook":
        return {**wanted, "actor": {**actor, "confidence": "certain"}}
    return wanted


def _is_wanted(found: Found, wanted: Found) -> bool:
    first = found["actors"][0] if found["actors"] else {"type": None, "name": None}
    places = {
        "detector": found["detector"],
        "resource": found["object"]["resource"],
        "name": found["object"]["name"],
        "subresource": found["subresource"],
    }
    return (
        all(wanted.get(key, value) == value for key, value in places.items())
        and _ORDER.index(found["severity"]) >= _ORDER.index(_least(wanted))
        and wanted.get("path", "") in ("", *found["paths"])
        and _is_actor(first, found["actors"], wanted.get("actor"))
    )


def _least(wanted: Found) -> str:
    return str(wanted.get("severity", "info" if "causedBy" in wanted else "warning"))


def _is_actor(first: Found, actors: list[Found], wanted: Found | list[Found] | None) -> bool:
    """One actor must be named first; of several each must be named surely."""
    if wanted is None:
        return True
    if isinstance(wanted, list):
        sure = {(one["type"], one["name"]) for one in actors if one["confidence"] in _SURE}
        return sure == {(one["type"], one["name"]) for one in wanted}
    return all(first[key] == value for key, value in wanted.items())


def _written(line: Found) -> tuple[float, tuple[str, str, str] | None, bool]:
    """When it happened, which object it updates, and whether that was carried out."""
    if line.get("kind") == "Event":
        now = _seconds(line["stageTimestamp"])
        about, is_stored = line["objectRef"], line["responseStatus"]["code"] < _REFUSED
        if line["verb"] not in ("update", "patch"):
            return now, None, False
        return now, _where(about["resource"], about.get("subresource", ""), about), is_stored
    now = _seconds(line["time"])
    request = line["review"]["request"]
    if request["operation"] != "UPDATE":
        return now, None, False
    where = _where(request["resource"]["resource"], request.get("subResource", ""), request)
    return now, where, line["phase"] == "outcome"


def _seconds(time: str) -> float:
    return datetime.fromisoformat(time).timestamp()


def _where(resource: str, subresource: str, request: Found) -> tuple[str, str, str]:
    return resource, subresource, request.get("name", "")

"""Sends recorded reviews through the same pipeline as live ones.

A line is a recording `{"time", "phase", "review"}` as `serve --record` writes it, a bare
AdmissionReview, which counts as phase mutate, or an event of audit.k8s.io/v1. Constant memory: one
line at a time.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from typing import Annotated, Any, Final

import msgspec

from genguard.admission.review import AdmissionRequest, GroupVersionResource, Phase
from genguard.audit.document import TOO_DEEP, UNFINISHED, audit_kind, see_events, why_unreadable
from genguard.audit.log import AuditLog
from genguard.detection.causes import beneath_causes
from genguard.detection.detection import Detection
from genguard.detection.finding import Actor, Finding, FixStep
from genguard.detection.fix import with_fix
from genguard.detection.reduce import Reviewed
from genguard.detection.suspects import Suspects
from genguard.detection.trial import Taken
from genguard.formats.lines import Line, LongLine
from genguard.objects.shown import json_line, printable
from genguard.review import Reply, Verdict, review
from genguard.review_setup import ReviewOptions, ReviewSetup
from genguard.trying import StepTaken

ReadAgain = Callable[[], Iterable[Line]]
"""Yields every line once more, from all files."""
ReplayLine = dict[str, Any]
"""One object of the output; `type` is review, error or summary."""


class _Recording(msgspec.Struct):
    time: Annotated[datetime, msgspec.Meta(tz=True)]
    phase: Phase
    review: msgspec.Raw


class _Head(msgspec.Struct):
    review: msgspec.Raw = msgspec.Raw()


_INDEX: Final = re.compile(r"/\d+(?=/|$)")
"""Of an item of a list, which may be at another place in another run."""
_heads: Final = msgspec.json.Decoder(_Head)
_recordings: Final = msgspec.json.Decoder(_Recording)


class Replay:
    """A run over any number of files, which remembers intents from file to file."""

    def __init__(self, options: ReviewOptions, suspects: Suspects | None = None) -> None:
        """`suspects` are the cluster's webhooks and policies. Raise UnknownServerVersionError."""
        self._options: Final = options
        self._suspects: Final = suspects or Suspects()
        self._dependencies: Final = ReviewSetup(options).dependencies
        self._detection: Final = Detection(suspects)
        self._audit: Final = AuditLog(self._dependencies.engine, suspects)
        self._counts: Counter[str] = Counter()
        self._clock = 0.0
        self._has_audit = False
        self.unreadable = 0

    def lines(self, stream: Iterable[Line], name: str) -> Iterator[ReplayLine]:
        """Judge each line of a stream; `name` is for messages."""
        for number, line in enumerate(stream, start=1):
            if isinstance(line, LongLine):
                yield self.leave_out(f"{name}:{number}", f"{line}: raise --max-line to read it")
            elif line and not line.isspace():
                where = f"{name}:{number}"
                try:
                    yield from self._line(line, where)
                except Exception as error:  # noqa: BLE001 - one bad line must not end the others
                    yield self.leave_out(where, why_unreadable(error))

    def leave_out(self, where: str, reason: str) -> ReplayLine:
        """Count what cannot be read, and say where it is and why."""
        self.unreadable += 1
        return {"type": "error", "where": where, "message": reason}

    def found(self) -> list[Finding]:
        """Return every finding, without its steps; to be called after the last line."""
        self._detection.finish(self._clock)
        return beneath_causes((*self._detection.findings(), *self._audit.findings()))

    def findings(self, read_again: ReadAgain | None = None) -> Iterator[ReplayLine]:
        """Every finding with its steps; to be called after the last line.

        read_again  where it is given, each step of a fix is tried on all reviews, each in a pass
        """
        found = self.found()
        tries_again = None if read_again is None else _TriedSteps(self, read_again).again
        samples = self._detection.ledger.samples({one.id for one in found})
        histories = self._detection.history.snapshot()
        for finding in found:
            self._counts["findings"] += 1
            whole = with_fix(
                finding,
                self._suspects.registered,
                sample=samples.get(finding.id),
                histories=histories,
                tries_again=tries_again,
            )
            yield msgspec.to_builtins(whole)

    def with_step(self, taken: Taken, lines: Iterable[Line]) -> tuple[Finding, ...] | None:
        """Return what is found in the same lines with a step taken; None where that is not known.

        Nothing of this run is changed.
        """
        try:
            step = StepTaken(taken, self._suspects, self._dependencies.engine)
        except LookupError:
            return None
        run = Replay(self._options, self._suspects.anew())
        for _ in run.lines(step.lines(lines), ""):
            pass
        return tuple(run.found()) if step.is_decided else None

    @property
    def is_empty(self) -> bool:
        """Whether nothing was judged: there was no review, and no event of an audit log."""
        return not (self._counts["reviews"] or self._has_audit or self.unreadable)

    @property
    def has_audit(self) -> bool:
        """Whether there was an audit log."""
        return self._has_audit

    @property
    def is_blind(self) -> bool:
        """Whether there was an audit log of which no write could be judged."""
        return self._has_audit and self._audit.is_blind

    def summary(self) -> ReplayLine:
        """The counts of the run."""
        audit = self._audit.summary() if self._has_audit else {}
        return {"type": "summary", "unreadable": self.unreadable, **dict(self._counts), **audit}

    def _line(self, line: bytes, where: str) -> Iterator[ReplayLine]:
        is_too_deep = False
        try:
            kind = audit_kind(line)
            if kind:
                self._has_audit = True
                for reason in see_events(line, kind, self._audit.see):
                    if reason == UNFINISHED:
                        self._counts["truncated"] += 1
                    else:
                        yield self.leave_out(where, reason)
                return
            phase, body = self._split(line)
        except RecursionError:
            is_too_deep, phase, body = True, Phase.MUTATE, line.strip()
        reply = review(body, phase, self._dependencies, self._clock)
        if reply.verdict.refused is not None:
            yield self.leave_out(where, TOO_DEEP if is_too_deep else str(reply.verdict.refused))
            return
        self._counts["reviews"] += 1
        if reply.verdict.patch:
            self._counts["patched"] += 1
        self._detect(phase, reply.verdict)
        yield _describe(phase, reply)

    def _detect(self, phase: Phase, verdict: Verdict) -> None:
        if verdict.request is not None and verdict.prediction is not None:
            reviewed = Reviewed(verdict.request, verdict.prediction, verdict.status)
            fact = self._detection.fact(phase, reviewed, self._clock)
            if fact is not None:
                self._detection.see(fact)

    def _split(self, line: bytes) -> tuple[Phase, bytes]:
        if bytes(_heads.decode(line).review) == b"":
            return Phase.MUTATE, line.strip()
        recording = _recordings.decode(line)
        # Time only runs forward: intents are remembered by it.
        self._clock = max(self._clock, recording.time.timestamp())
        return recording.phase, bytes(recording.review)


class _TriedSteps:
    """The steps that were tried on all reviews; several findings have the same one."""

    def __init__(self, run: Replay, read_again: ReadAgain) -> None:
        self._run: Final = run
        self._read_again: Final = read_again
        self._found: Final[dict[Taken, tuple[Finding, ...] | None]] = {}

    def again(self, finding: Finding, taken: Taken) -> int | None:
        """Return with how many signs a finding comes again; None where that is not known."""
        if taken not in self._found:
            self._found[taken] = self._run.with_step(taken, self._read_again())
        found = self._found[taken]
        if found is None:
            return None
        return sum(one.count for one in found if _is_again(finding, one))


def _is_again(finding: Finding, other: Finding) -> bool:
    """Whether another run found the same; an anomaly is no loop, but one that has a cause is."""
    same = (finding.detector, finding.subresource) == (other.detector, other.subresource)
    is_anomaly = other.severity.rank < finding.severity.rank and not other.caused_by
    fields, others = ({_INDEX.sub("/*", path) for path in one.paths} for one in (finding, other))
    if not same or is_anomaly or (fields and others and fields.isdisjoint(others)):
        return False
    if finding.objects is None:
        return finding.object == other.object
    return finding.id == other.id or other.object in finding.objects.examples


def _describe(phase: Phase, reply: Reply) -> ReplayLine:
    verdict = reply.verdict
    line: ReplayLine = {"type": "review", "uid": None, "phase": phase.value}
    if verdict.request is not None:
        wire = verdict.request.wire
        line |= {
            "uid": wire.uid,
            "group": wire.resource.group,
            "resource": wire.resource.resource,
            "subresource": wire.sub_resource,
            "operation": wire.operation.value,
            "namespace": wire.namespace,
            "name": wire.name,
            "apiVersion": _api_version(wire.resource),
            "objectUid": _object_uid(verdict.request),
        }
    prediction = verdict.prediction
    line |= {
        "predictedGeneration": None if prediction is None else prediction.generation,
        "step": None if prediction is None else prediction.step,
        "cause": verdict.skipped if prediction is None else prediction.cause.value,
        "effective": prediction is not None and prediction.effective,
        "patch": verdict.patch,
    }
    return line


def _api_version(resource: GroupVersionResource) -> str:
    return f"{resource.group}/{resource.version}" if resource.group else resource.version


def _object_uid(request: AdmissionRequest) -> str:
    """Return the uid of the object; "" before it has one, as in a create."""
    for one in (request.old_object, request.object):
        if one is not None and one.metadata.uid:
            return one.metadata.uid
    return ""


def as_json(line: ReplayLine) -> str:
    """A line as JSON."""
    return json_line(line)


def as_row(line: ReplayLine) -> str:
    """A line as a row of a table."""
    if line["type"] == "error":
        return printable(f"{line['where']}: {line['message']}")
    if line["type"] == "finding":
        return "\n".join(map(printable, (_finding_row(line), *_tried_rows(line))))
    if line["type"] == "summary":
        return printable(_summary_row(line))
    target = "/".join(part for part in (line.get("namespace"), line.get("name")) if part)
    resource = line.get("resource", "?") + (
        f"/{line['subresource']}" if line.get("subresource") else ""
    )
    patch = "; ".join(f"{one.op} {one.path}={one.value}" for one in line["patch"]) or "-"
    generation = "-" if line["predictedGeneration"] is None else line["predictedGeneration"]
    row = (
        f"{line['phase']:8} {line.get('operation', '?'):7} {resource:32} {target:40} "
        f"{generation!s:>6} {line['cause']:28} {patch}"
    )
    return printable(row)


def not_judged_rows(summary: ReplayLine) -> Iterator[str]:
    """Yield a row of a table for each reason why writes of an audit log were not judged."""
    return (printable(one["message"]) for one in summary.get("notJudged", ()))


def _summary_row(line: ReplayLine) -> str:
    counts = [f"{value} {key}" for key, value in line.items() if isinstance(value, int)]
    counts += [
        f"{key}: " + ", ".join(f"{name} {count}" for name, count in value.items())
        for key, value in line.items()
        if isinstance(value, dict) and value
    ]
    return ", ".join(counts)


def _tried_rows(finding: ReplayLine) -> Iterator[str]:
    """Yield a row for each step that was tried on all reviews."""
    for step in msgspec.convert(finding.get("fix", ()), list[FixStep]):
        if step.trial is not None and step.trial.again is not None:
            yield f"{'':9}{step.title}. {step.trial.text}"


def _finding_row(line: ReplayLine) -> str:
    found = line.get("object") or line["objects"]["examples"][0]
    target = "/".join(part for part in (found["namespace"], found["name"]) if part)
    if "objects" in line:
        target = f"and {line['objects']['count'] - 1:,} more"
    actors = ", ".join(one.label for one in msgspec.convert(line["actors"], list[Actor]))
    detector = f"{'└ ' if line.get('causedBy') or line.get('partOf') else ''}{line['detector']}"
    return (
        f"{line['severity']:8} {detector:28} {found['resource']:24} {target:40} "
        f"{line['count']:>5}x  {actors or 'unknown'}: {line['message']}"
    )

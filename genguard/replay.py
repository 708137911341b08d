"""Sends recorded reviews through the same pipeline as live ones.

A line is a recording `{"time", "phase", "review"}` as `serve --record` writes it, a bare
AdmissionReview, which counts as phase mutate, or an event of audit.k8s.io/v1. Constant memory: one
line at a time.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Annotated, Any, Final

import msgspec

from genguard.admission.review import Phase
from genguard.audit.event import TOO_DEEP, UNFINISHED, audit_kind, see_events, why_unreadable
from genguard.audit.log import AuditLog
from genguard.detection.causes import beneath_causes
from genguard.detection.detection import Detection
from genguard.detection.finding import Finding, labels_of
from genguard.detection.fix import with_fix
from genguard.detection.mutators import Mutators
from genguard.detection.reduce import Reviewed
from genguard.formats.documents import Line, LongLine
from genguard.objects.shown import printable
from genguard.review import Reply, ReviewResult, review
from genguard.review_setup import ReviewOptions, ReviewSetup

ReplayLine = dict[str, Any]
"""One object of the output; `type` is review, error or summary."""


class _Recording(msgspec.Struct):
    time: Annotated[datetime, msgspec.Meta(tz=True)]
    phase: Phase
    review: msgspec.Raw


class _Head(msgspec.Struct):
    review: msgspec.Raw = msgspec.Raw()


_heads: Final = msgspec.json.Decoder(_Head)
_recordings: Final = msgspec.json.Decoder(_Recording)


class Replay:
    """A run over any number of files, which remembers intents from file to file."""

    def __init__(
        self, options: ReviewOptions, mutators: Mutators | None = None, *, at_rest: bool = False
    ) -> None:
        """Begin without any memory. Raise UnknownServerVersionError.

        mutators  the cluster's webhooks and policies
        at_rest   nobody should write any more: see Detection
        """
        self._mutators: Final = mutators or Mutators()
        self._dependencies: Final = ReviewSetup(options).dependencies
        self._detection: Final = Detection(mutators, at_rest=at_rest)
        self._audit: Final = AuditLog(self._dependencies.engine, mutators)
        self._counts: Counter[str] = Counter()
        self._clock = 0.0
        self._has_audit = False
        self.unreadable = 0

    def lines(self, stream: Iterable[Line], name: str) -> Iterator[ReplayLine]:
        """Examine each line of a stream; `name` is for messages."""
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
        """Return every finding, the worst first, without its steps; to be called last."""
        self._detection.finish(self._clock)
        found = (*self._detection.findings(), *self._audit.findings())
        return beneath_causes(sorted(found, key=lambda finding: -finding.severity.rank))

    def findings(self) -> Iterator[ReplayLine]:
        """Every finding with its steps; to be called after the last line."""
        found = self.found()
        samples = self._detection.ledger.samples({finding.id for finding in found})
        histories = self._detection.history.snapshot()
        for finding in found:
            self._counts["findings"] += 1
            detailed = with_fix(
                finding,
                self._mutators.registered,
                sample=samples.get(finding.id),
                histories=histories,
            )
            yield msgspec.to_builtins(detailed)

    @property
    def is_empty(self) -> bool:
        """Whether nothing was examined: there was no review, and no event of an audit log."""
        return not (self._counts["reviews"] or self._has_audit or self.unreadable)

    @property
    def is_blind(self) -> bool:
        """Whether there was an audit log of which no write could be examined."""
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
        if reply.result.rejected is not None:
            yield self.leave_out(where, TOO_DEEP if is_too_deep else str(reply.result.rejected))
            return
        self._counts["reviews"] += 1
        if reply.result.patch:
            self._counts["patched"] += 1
        self._detect(phase, reply.result)
        yield _describe(phase, reply)

    def _detect(self, phase: Phase, result: ReviewResult) -> None:
        if result.request is not None and result.prediction is not None:
            reviewed = Reviewed(result.request, result.prediction, result.status)
            observation = self._detection.observe(phase, reviewed, self._clock)
            if observation is not None:
                self._detection.see(observation)

    def _split(self, line: bytes) -> tuple[Phase, bytes]:
        if bytes(_heads.decode(line).review) == b"":
            return Phase.MUTATE, line.strip()
        recording = _recordings.decode(line)
        # Time only runs forward: intents are remembered by it.
        self._clock = max(self._clock, recording.time.timestamp())
        return recording.phase, bytes(recording.review)


def _describe(phase: Phase, reply: Reply) -> ReplayLine:
    result = reply.result
    line: ReplayLine = {"type": "review", "uid": None, "phase": phase.value}
    if result.request is not None:
        wire = result.request.wire
        known = (result.request.old_object, result.request.object)  # a create has no uid yet
        uids = (document.metadata.uid for document in known if document is not None)
        line |= {
            "uid": wire.uid,
            "group": wire.resource.group,
            "resource": wire.resource.resource,
            "subresource": wire.sub_resource,
            "operation": wire.operation.value,
            "namespace": wire.namespace,
            "name": wire.name,
            "apiVersion": f"{wire.resource.group}/{wire.resource.version}".lstrip("/"),
            "objectUid": next(filter(None, uids), ""),
        }
    prediction = result.prediction
    line |= {
        "predictedGeneration": None if prediction is None else prediction.generation,
        "step": None if prediction is None else prediction.step,
        "cause": result.skipped if prediction is None else prediction.cause.value,
        "effective": prediction is not None and prediction.effective,
        "patch": result.patch,
    }
    return line


def as_row(line: ReplayLine) -> str:
    """A line as a row of a table."""
    if line["type"] == "error":
        return printable(f"{line['where']}: {line['message']}")
    if line["type"] == "finding":
        return "".join(finding_row(line))
    if line["type"] == "summary":
        return printable(_summary_row(line))
    target = "/".join(part for part in (line.get("namespace"), line.get("name")) if part)
    resource = line.get("resource", "?") + (
        f"/{line['subresource']}" if line.get("subresource") else ""
    )
    changes = (f"{operation.op} {operation.path}={operation.value}" for operation in line["patch"])
    patch = "; ".join(changes) or "-"
    generation = "-" if line["predictedGeneration"] is None else line["predictedGeneration"]
    row = (
        f"{line['phase']:8} {line.get('operation', '?'):7} {resource:32} {target:40} "
        f"{generation!s:>6} {line['cause']:28} {patch}"
    )
    return printable(row)


def _summary_row(line: ReplayLine) -> str:
    counts = [f"{value} {key}" for key, value in line.items() if isinstance(value, int)]
    counts += [
        f"{key}: " + ", ".join(f"{name} {count}" for name, count in value.items())
        for key, value in line.items()
        if isinstance(value, dict) and value
    ]
    return ", ".join(counts)


def finding_row(line: ReplayLine) -> tuple[str, str]:
    """Return a finding for people: its severity and detector, and who does what; what to do."""
    found = msgspec.convert(line, Finding)
    detector = f"{'└ ' if found.above else ''}{found.detector}"
    actors = ", ".join(labels_of(found.actors)) or "unknown"
    text = f"{actors}: {found.about}, {found.count}x: {found.message}"
    text += f". Next: {found.fix[0].title}" if found.fix else ""
    return f"{found.severity:8} {detector:28} ", printable(text)

"""The JSON schema of each output of `-o json`, made from the structs that are printed.

Outputs that are printed as plain objects have their struct here.
"""

from typing import Any, Final, Literal

import msgspec

from genguard.admission.review import PatchOperation
from genguard.blame.report import Blame
from genguard.detection.finding import Finding, FoundObject
from genguard.explain.explanation import Explanation
from genguard.linting.check import LintFinding
from genguard.trace.report import TraceConclusion
from webhook.cli.scan import ScanLine
from webhook.cli.status import WatchedLine
from webhook.doctor.facts import CheckResult

_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"


class DoctorSummary(msgspec.Struct, tag="summary", tag_field="type"):
    """The last line of `genguard doctor -o json`: how many checks ended so."""

    ok: int
    unknown: int
    warn: int
    fail: int


class LintSummary(msgspec.Struct, tag="summary", tag_field="type"):
    """The last line of `genguard lint -o json`: how many problems there are."""

    error: int
    warning: int
    info: int


class ScanSummary(msgspec.Struct, tag="summary", tag_field="type"):
    """The last line of `genguard scan -o json`: how many lines there are of each severity."""

    critical: int
    warning: int
    info: int


class ReplayedReview(msgspec.Struct, rename="camel", tag="review", tag_field="type"):
    """One review; what a review that cannot be read does not say is left out."""

    uid: str | None
    phase: Literal["intent", "mutate", "outcome"]
    predicted_generation: int | None
    """null where the kind keeps none"""
    step: int | None
    cause: str
    effective: bool
    patch: tuple[PatchOperation, ...]
    group: str = ""
    resource: str = ""
    subresource: str = ""
    operation: str = ""
    namespace: str = ""
    name: str = ""
    api_version: str = ""
    object_uid: str = ""


class ReplayError(msgspec.Struct, tag="error", tag_field="type"):
    """A line that could not be read, on standard error."""

    where: str
    message: str


class NotExamined(msgspec.Struct):
    """Writes of an audit log that cannot be examined, and what to set so that they can."""

    reason: Literal[
        "level Metadata", "level Request", "cut", "stored state not known", "patches do not apply"
    ]
    writes: int
    message: str


class ReplaySummary(msgspec.Struct, rename="camel", tag="summary", tag_field="type"):
    """The last line; counts of what did not occur, and of audit logs without one, are left out."""

    unreadable: int
    reviews: int = 0
    patched: int = 0
    findings: int = 0
    truncated: int = 0
    events: int = 0
    patches: int = 0
    refused: int = 0
    webhooks: dict[str, Any] = {}
    reinvoked: dict[str, Any] = {}
    failed_open: dict[str, Any] = {}
    not_examined: tuple[NotExamined, ...] = ()


class TracedWrites(msgspec.Struct):
    """How many writes were seen in full, in part, or mixed with another."""

    complete: int
    incomplete: int
    mixed: int


class TracedEffect(msgspec.Struct, rename="camel"):
    """One field that was changed; before and after with --show-values, where there is one."""

    subresource: str
    pointer: str
    change: str
    observed_generation: str | None
    discarded: bool
    count: int
    before: Any = None
    after: Any = None


class TracedRow(msgspec.Struct):
    """What somebody changed; `writes` by subresource."""

    writes: dict[str, int]
    changed: int
    fields: tuple[TracedEffect, ...]


class TracedRequest(TracedRow, rename="camel"):
    """What a requester changed."""

    user: str
    field_manager: str


class TracedConfiguration(msgspec.Struct):
    """A webhook configuration, and the webhooks in it that were called."""

    name: str
    webhooks: tuple[str, ...]


class TracedWebhooks(TracedRow):
    """What configurations between two observers changed."""

    configurations: tuple[TracedConfiguration, ...]


class TracedCulprit(msgspec.Struct, rename="camel"):
    """Who lost an observedGeneration."""

    type: str
    name: str
    confidence: str
    paths: tuple[str, ...]
    field_manager: str = ""
    webhooks: tuple[str, ...] = ()


class TracedCarried(msgspec.Struct):
    """An observedGeneration, and how many writes carried it."""

    path: str
    writes: int


class TracedCreation(msgspec.Struct):
    """Who is called at its creation; `fields` that a dry run shows as removed or changed."""

    webhooks: tuple[str, ...]
    fields: dict[str, str] = {}
    refused: str = ""


class TraceReport(msgspec.Struct, rename="camel", tag="trace", tag_field="type"):
    """The report of `genguard trace -o json`."""

    id: str
    verdict: TraceConclusion
    dry_runs: bool
    status_writes: int
    carried: tuple[TracedCarried, ...]
    object: FoundObject
    writes: TracedWrites
    culprits: tuple[TracedCulprit, ...]
    requests: tuple[TracedRequest, ...]
    webhooks: tuple[TracedWebhooks, ...]
    not_seen: tuple[str, ...]
    changed_meanwhile: tuple[str, ...]
    creation: TracedCreation


OUTPUTS: Final[dict[str, tuple[str, Any]]] = {
    "status": ("a line of genguard status -o json", WatchedLine),
    "findings": ("a line of genguard findings -o json, and explain finding/ID", Finding),
    "doctor": ("a line of genguard doctor -o json", CheckResult | DoctorSummary),
    "explain": ("genguard explain RESOURCE -o json", Explanation),
    "blame": ("genguard blame -o json", Blame),
    "replay": (
        "a line of genguard replay -o json",
        ReplayedReview | Finding | ReplayError | ReplaySummary,
    ),
    "trace": ("genguard trace -o json", TraceReport),
    "scan": ("a line of genguard scan -o json", ScanLine | ScanSummary),
    "lint": ("a line of genguard lint -o json", LintFinding | LintSummary),
}
"""What each output is, and its type."""


def schema_of(output: str) -> dict[str, Any]:
    """Return the JSON schema of an output; raises KeyError."""
    text, form = OUTPUTS[output]
    head = {"$schema": _DIALECT, "title": text}
    return head | msgspec.json.schema(form)

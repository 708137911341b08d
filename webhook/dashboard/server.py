"""The page of this server: its readiness, certificate, memory, problems and metrics."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from math import inf
from typing import Final, NamedTuple

import msgspec

from webhook.dashboard.page import PageContext, PageData, check_parameters


class Trouble(msgspec.Struct, frozen=True):
    """A problem, how often it occurred, and its runbook, "" if there is none."""

    what: str
    count: float
    runbook: str


class Measure(msgspec.Struct, frozen=True):
    """A metric without labels; `told` is its help text."""

    name: str
    told: str
    value: float


class HealthPage(msgspec.Struct, frozen=True, rename="camel"):
    """The data of the page; `missing` says why the server is not ready, null if it is."""

    missing: str | None
    about: dict[str, str]
    not_after: str
    fingerprint: str
    seconds_left: float
    troubles: tuple[Trouble, ...]
    measures: tuple[Measure, ...]
    watches: dict[str, bool]
    tracked: int
    tracked_bytes: int
    remembered: int
    remembered_bytes: int
    queued: int
    writes: int
    incomplete: int


class _Counted(NamedTuple):
    """A metric that counts problems; `values` selects one value of the label, "" any."""

    family: str
    what: str
    runbook: str
    label: str
    values: str = ""


class _Bound(NamedTuple):
    """The normal range of a metric; `counts`: its value is a number of occurrences."""

    family: str
    what: str
    runbook: str
    least: float = 0.0
    most: float = inf
    counts: bool = False


_COUNTED: Final = (
    _Counted(
        "genguard_refused_requests",
        "requests rejected before they were read",
        "GenguardRefused",
        "reason",
    ),
    _Counted(
        "genguard_dropped_edits", "edits left out of a patch", "GenguardPatchDropped", "resource"
    ),
    _Counted("genguard_reviews", "reviews", "GenguardUndecodable", "decision", "undecodable"),
    _Counted("genguard_heals", "attempts to restore a value", "", "result", "refused"),
    _Counted("genguard_heals", "attempts to restore a value", "", "result", "failed"),
)
_BOUNDS: Final = (
    _Bound(
        "genguard_certificate_expiry_seconds",
        "the certificate expires within a week",
        "GenguardCertificateExpiry",
        least=7 * 86_400.0,
    ),
    _Bound(
        "genguard_event_loop_lag_seconds",
        "answers were late by 0.1 s or more",
        "GenguardSlow",
        most=0.1,
    ),
    _Bound("genguard_store_up", "the shared store cannot be reached", "GenguardStoreLost", 1.0),
    _Bound(
        "genguard_cluster_known",
        "the API server could not be read yet",
        "GenguardClusterUnknown",
        1.0,
    ),
    _Bound(
        "genguard_store_save_failures",
        "findings could not be saved",
        "GenguardSaveFailed",
        most=0.0,
        counts=True,
    ),
    _Bound(
        "genguard_recording_dropped",
        "reviews were not recorded",
        "GenguardRecordingDropped",
        most=0.0,
        counts=True,
    ),
    _Bound(
        "genguard_flip_status_refused",
        "resources of --flip-status that are not flipped",
        "GenguardFlipRefused",
        most=0.0,
        counts=True,
    ),
)


async def load(context: PageContext, query: Mapping[str, str], now: float) -> PageData:
    """Return the state of this replica."""
    check_parameters(query, ())
    detecting, server = context.sources.detecting, context.server
    left = (server.not_after - datetime.fromtimestamp(now, UTC)).total_seconds()
    samples = _samples(context)
    seen = detecting.detection.completeness
    model = HealthPage(
        missing=server.missing(),
        about=dict(context.sources.about()),
        not_after=server.not_after.astimezone(UTC).isoformat().replace("+00:00", "Z"),
        fingerprint=server.fingerprint,
        seconds_left=left,
        troubles=(*_of_now(samples), *_counted(samples), *_of_detection(context)),
        measures=tuple(
            Measure(one.family, one.told, one.value) for one in samples if not one.labels
        ),
        watches=dict(context.sources.watching.states()),
        tracked=len(detecting.tracking),
        tracked_bytes=detecting.tracking.bytes,
        remembered=len(detecting.detection.history),
        remembered_bytes=detecting.detection.history.bytes,
        queued=len(detecting),
        writes=seen.joined,
        incomplete=seen.incomplete,
    )
    return PageData(model, {})


class _Sample(NamedTuple):
    family: str
    told: str
    labels: Mapping[str, str]
    value: float


def _samples(context: PageContext) -> list[_Sample]:
    return [
        _Sample(family.name, family.documentation, sample.labels, sample.value)
        for family in context.sources.metrics.collect()
        if family.type in ("gauge", "counter")
        for sample in family.samples
    ]


def _counted(samples: Iterable[_Sample]) -> Iterator[Trouble]:
    for family, _, labels, value in samples:
        for counted in _COUNTED:
            is_meant = counted.family == family and counted.values in ("", labels[counted.label])
            if is_meant and value:
                told = f"{counted.what}: {labels[counted.label]}"
                yield Trouble(told, value, counted.runbook)


def _of_detection(context: PageContext) -> Iterator[Trouble]:
    detecting = context.sources.detecting
    if detecting.dropped:
        told = "reviews that were not checked for loops, since the queue was full"
        yield Trouble(told, detecting.dropped, "GenguardDetectionDropped")
    if incomplete := detecting.detection.completeness.incomplete:
        told = "writes that missed a phase on this replica"
        yield Trouble(told, incomplete, "GenguardIncompleteWrites")
    if odd := detecting.untracked + detecting.detection.unreadable:
        yield Trouble("objects that could not be compared or tracked", odd, "")
    for resource, is_current in context.sources.watching.states().items():
        if not is_current:
            yield Trouble(
                f"{resource} is out of date: its watch is broken", 1, "GenguardWatchStale"
            )


def _of_now(samples: Iterable[_Sample]) -> Iterator[Trouble]:
    for family, _, labels, value in samples:
        for bound in _BOUNDS if not labels else ():
            if bound.family == family and not bound.least <= value <= bound.most:
                yield Trouble(bound.what, value if bound.counts else 1, bound.runbook)

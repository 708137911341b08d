"""The page of this server: its readiness, certificate, memory, problems and metrics.

Metrics are shown in groups, with units for people. The JSON has their plain values.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from math import inf
from typing import Final, NamedTuple

import msgspec
from prometheus_client.metrics_core import Metric

from webhook.dashboard.page import PageContext, PageData, check_parameters
from webhook.dashboard.rendering import ago, count, size, span
from webhook.tasks.supervisor import FailingTask


class Trouble(msgspec.Struct, frozen=True):
    """A problem, how often it occurred, and its runbook, "" if there is none."""

    what: str
    count: float
    runbook: str


class Measure(msgspec.Struct, frozen=True):
    """A metric without labels."""

    name: str
    help: str
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
    remembered: int
    remembered_bytes: int
    queued: int
    writes: int
    incomplete: int
    failing: tuple[FailingTask, ...]


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
    _Counted("genguard_task_failures", "failures of a task", "GenguardTaskFailing", "task"),
    _Counted("genguard_left_out", "left out, since handling failed", "GenguardLeftOut", "what"),
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


class Row(NamedTuple):
    """A metric as people read it: its value with a unit, and parts of it by label."""

    name: str
    help: str
    value: str
    parts: tuple[tuple[str, str], ...]


class Group(NamedTuple):
    """Metrics that answer one question."""

    title: str
    rows: tuple[Row, ...]


_SECTIONS: Final = {
    "Answers to the API server": (
        *("reviews", "review_seconds", "last_review", "mends", "predictions", "shed", "refused"),
        *("dropped_edits", "event_loop", "open_connections"),
    ),
    "Detection and repair": (
        *("findings", "detection", "writes", "incomplete", "heals", "costly", "flip"),
        "remembered",
    ),
    "Certificate, cluster and replicas": ("certificate", "cluster", "leader", "store"),
}
"""Groups of metrics: the beginnings of their names, without `genguard_`."""
_REST: Final = "Other"
_YES_OR_NO: Final = frozenset(
    {
        "genguard_certificate_rotation_failing",
        "genguard_cluster_known",
        "genguard_leader",
        "genguard_store_shared",
        "genguard_store_up",
    }
)
_LEFT_OUT: Final = frozenset({"genguard_objects", "genguard_generation_lag_objects"})
"""They are on the pages of objects and durations."""
_MOST_PARTS: Final = 6
_BY: Final = {"genguard_reviews": "decision", "genguard_findings_open": "severity"}
"""The label by which a metric is broken down; the first one for all others."""
_SHARES: Final = ((0.5, "half"), (0.99, "99 %"))


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
            Measure(one.family, one.help, one.value) for one in samples if not one.labels
        ),
        watches=dict(context.sources.watching.states()),
        tracked=len(detecting.tracking),
        remembered=len(detecting.detection.history),
        remembered_bytes=detecting.detection.history.bytes,
        queued=len(detecting),
        writes=seen.joined,
        incomplete=seen.incomplete,
        failing=context.sources.failing(),
    )
    return PageData(
        model, {"groups": _groups(context, now), "silences": context.sources.silences.current(now)}
    )


def _groups(context: PageContext, now: float) -> tuple[Group, ...]:
    """Return all metrics of this server, in groups, without those of single objects."""
    rows: dict[str, list[Row]] = defaultdict(list)
    for family in context.sources.metrics.collect():
        if family.name in _LEFT_OUT or not family.samples:
            continue
        if family.type == "histogram":
            row = _of_histogram(family)
        elif family.type in ("gauge", "counter"):
            row = _of_values(family, now)
        else:
            row = None
        if row is not None:
            name = family.name.removeprefix("genguard_")
            titles = (title for title, starts in _SECTIONS.items() if name.startswith(starts))
            rows[next(titles, _REST)].append(row)
    return tuple(Group(one, tuple(rows[one])) for one in (*_SECTIONS, _REST) if rows[one])


def _of_values(family: Metric, now: float) -> Row | None:
    """Return a gauge or counter: its sum, and the largest parts of that by one label."""
    found = [one for one in family.samples if not one.name.endswith("_created")]
    if not found:
        return None
    parts: dict[str, float] = defaultdict(float)
    for sample in found:
        if sample.labels:
            label = _BY.get(family.name, next(iter(sample.labels)))
            parts[sample.labels.get(label, "")] += sample.value
    largest = sorted(((name, value) for name, value in parts.items() if value), key=_by_value)
    shown = tuple((name, count(value)) for name, value in largest[:_MOST_PARTS])
    value = shown_value(family.name, sum(one.value for one in found), now)
    return Row(found[0].name, family.documentation, value, shown)


def _by_value(part: tuple[str, float]) -> tuple[float, str]:
    return -part[1], part[0]


def shown_value(name: str, value: float, now: float) -> str:
    """Format the value of a metric by the unit in its name."""
    if name in _YES_OR_NO:
        return "yes" if value else "no"
    if name.endswith("_timestamp_seconds"):
        return ago(value, now) if value else "never"
    if name.endswith("_seconds"):
        return span(value)
    return size(value) if name.endswith("_bytes") else count(value)


def _of_histogram(family: Metric) -> Row | None:
    """Return a histogram in seconds without labels: what half and nearly all of it stay within."""
    buckets = [one for one in family.samples if one.name.endswith("_bucket")]
    if any(set(one.labels) != {"le"} for one in buckets):
        return None
    total = max((one.value for one in buckets), default=0.0)
    if not total:
        return Row(family.name, family.documentation, "not measured yet", ())
    parts = []
    for share, words in _SHARES:
        bounds = (float(one.labels["le"]) for one in buckets if one.value >= share * total)
        bound = min(bounds, default=inf)
        last = max(float(one.labels["le"]) for one in buckets if one.labels["le"] != "+Inf")
        parts.append((words, f"> {span(last)}" if bound == inf else f"≤ {_exactly(bound)}"))
    return Row(family.name, family.documentation, count(total), tuple(parts))


def _exactly(seconds: float) -> str:
    """Format a bound, which may be far below a millisecond."""
    return f"{seconds * 1000:g} ms" if seconds < 1.0 else span(seconds)


class _Sample(NamedTuple):
    family: str
    help: str
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
                what = f"{counted.what}: {labels[counted.label]}"
                yield Trouble(what, value, counted.runbook)


def _of_detection(context: PageContext) -> Iterator[Trouble]:
    detecting = context.sources.detecting
    if detecting.dropped:
        what = "reviews that were not checked for loops, since the queue was full"
        yield Trouble(what, detecting.dropped, "GenguardDetectionDropped")
    if incomplete := detecting.detection.completeness.incomplete:
        what = "writes that missed a phase on this replica"
        yield Trouble(what, incomplete, "GenguardIncompleteWrites")
    if odd := detecting.detection.unreadable:
        yield Trouble("objects that could not be compared", odd, "")
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

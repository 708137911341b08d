"""How genguard itself is: what it serves, and what has gone wrong with it."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from math import inf
from typing import Final, NamedTuple

import msgspec

from webhook.dashboard.runbook import Runbook, runbook
from webhook.dashboard.scene import MissingError, Scene, Seen, known_only


class Trouble(msgspec.Struct, frozen=True):
    """Something that has gone wrong, how often, and the runbook for it, "" where none is."""

    what: str
    count: float
    runbook: str


class Measure(msgspec.Struct, frozen=True):
    """A metric without labels."""

    name: str
    told: str
    value: float


class HealthPage(msgspec.Struct, frozen=True, rename="camel"):
    """`missing` keeps it from being ready; null when nothing does."""

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
    """A family of metrics whose samples count trouble, with this value of the label, "" for any."""

    family: str
    what: str
    runbook: str
    label: str
    values: str = ""


class _Bound(NamedTuple):
    """What a number of genguard's own should be; `counts`: it says how often."""

    family: str
    what: str
    runbook: str
    least: float = 0.0
    most: float = inf
    counts: bool = False


_COUNTED: Final = (
    _Counted("genguard_refused_requests", "requests refused unread", "GenguardRefused", "reason"),
    _Counted("genguard_dropped_edits", "edits left out", "GenguardPatchDropped", "resource"),
    _Counted("genguard_reviews", "reviews", "GenguardUndecodable", "decision", "undecodable"),
    _Counted("genguard_heals", "attempts to put a value back", "", "result", "refused"),
    _Counted("genguard_heals", "attempts to put a value back", "", "result", "failed"),
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
        "answers were late by a tenth of a second",
        "GenguardSlow",
        most=0.1,
    ),
    _Bound("genguard_store_up", "the shared store is not reached", "GenguardStoreLost", 1.0),
    _Bound("genguard_cluster_known", "the cluster is not known yet", "GenguardClusterUnknown", 1.0),
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
        "kinds whose status is not flipped",
        "GenguardFlipRefused",
        most=0.0,
        counts=True,
    ),
)


async def look(scene: Scene, query: Mapping[str, str], now: float) -> Seen:
    """Of this replica: each has its own."""
    known_only(query, ())
    detecting, server = scene.sources.detecting, scene.server
    left = (server.not_after - datetime.fromtimestamp(now, UTC)).total_seconds()
    samples = _samples(scene)
    seen = detecting.detection.completeness
    model = HealthPage(
        missing=server.missing(),
        about=dict(scene.sources.about()),
        not_after=server.not_after.astimezone(UTC).isoformat().replace("+00:00", "Z"),
        fingerprint=server.fingerprint,
        seconds_left=left,
        troubles=(*_of_now(samples), *_counted(samples), *_of_detection(scene)),
        measures=tuple(
            Measure(one.family, one.told, one.value) for one in samples if not one.labels
        ),
        watches=dict(scene.sources.watching.states()),
        tracked=len(detecting.tracking),
        tracked_bytes=detecting.tracking.bytes,
        remembered=len(detecting.detection.history),
        remembered_bytes=detecting.detection.history.bytes,
        queued=len(detecting),
        writes=seen.joined,
        incomplete=seen.incomplete,
    )
    return Seen(model, {})


async def page_of(_: Scene, query: Mapping[str, str], __: float) -> Seen:
    """A runbook, for who has no internet at the moment; raises MissingError."""
    name = query["name"]
    if not name.replace("-", "").isalnum():
        raise MissingError("There is no such runbook.")
    try:
        found: Runbook = runbook(name)
    except FileNotFoundError as error:
        raise MissingError("There is no such runbook.") from error
    return Seen(found, {})


class _Sample(NamedTuple):
    family: str
    told: str
    labels: Mapping[str, str]
    value: float


def _samples(scene: Scene) -> list[_Sample]:
    return [
        _Sample(family.name, family.documentation, sample.labels, sample.value)
        for family in scene.sources.metrics.collect()
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


def _of_detection(scene: Scene) -> Iterator[Trouble]:
    detecting = scene.sources.detecting
    if detecting.dropped:
        told = "reviews that detection had no room for"
        yield Trouble(told, detecting.dropped, "GenguardDetectionDropped")
    if incomplete := detecting.detection.completeness.incomplete:
        told = "writes that were seen in part: another replica saw the rest, or nobody"
        yield Trouble(told, incomplete, "GenguardIncompleteWrites")
    if odd := detecting.untracked + detecting.detection.unreadable:
        yield Trouble("objects that could not be compared or tracked", odd, "")
    for resource, is_current in scene.sources.watching.states().items():
        if not is_current:
            yield Trouble(f"{resource} is not known as it is now", 1, "GenguardWatchStale")


def _of_now(samples: Iterable[_Sample]) -> Iterator[Trouble]:
    for family, _, labels, value in samples:
        for bound in _BOUNDS if not labels else ():
            if bound.family == family and not bound.least <= value <= bound.most:
                yield Trouble(bound.what, value if bound.counts else 1, bound.runbook)

"""The form of `make soak` that takes five minutes, and what its verdict goes by."""

import pytest

from genguard.detection.history import WRITES_OF_AN_OBJECT
from tools.soak.report import memory, report, too_much
from tools.soak.soak import Answers, Plan, Sample, Soaked, soak

_MIB = 1024 * 1024
FILLS = WRITES_OF_AN_OBJECT
"""A filling updates each object once: what detection remembers of it is full afterwards."""
SHORT = Plan(seconds=300.0, rate=100, objects=400, period=75.0, sample=5.0, fills=FILLS)
STEEP = 6.0
"""MiB an hour: of each review some 18 bytes."""


@pytest.mark.timeout(1_800)
def test_load_failed_handshakes_a_spoilt_certificate_and_a_lost_store_leave_nothing_behind():
    found = soak(SHORT)
    print(f"\n{report(found)}")
    assert too_much(found, STEEP) == []
    assert found.few < found.many * 2 / 3
    assert found.many >= SHORT.objects
    assert found.troubles == 6, "two of them while it was warmed up"
    assert found.handshakes >= 5, "each way to fail"


def test_growth_is_the_line_of_least_squares_and_what_scatters_is_not_examined_to_grow():
    samples = tuple(
        Sample(3_600.0 * hour, int(value * _MIB), descriptors=1, metrics_bytes=1)
        for hour, value in enumerate((1.0, 5.0, 2.0, 4.0))
    )
    # By hand: means 1.5 and 3, sums of squares 5 and of products 3; 8.2 is left over.
    found = memory(_soaked(*samples))
    assert (found.slope, found.error) == pytest.approx((0.6, (8.2 / 2 / 5) ** 0.5))
    assert found.surely_above(-2.0)
    assert not found.surely_above(0.0)


def _soaked(
    *samples: Sample,
    wrong: tuple[str, ...] = (),
    series: tuple[str, ...] = ("a", "b"),
    errors: tuple[str, ...] = (),
) -> Soaked:
    few, many = frozenset({"a", "b"}), frozenset(series)
    answers = Answers(wrong=list(wrong))
    return Soaked(samples, 1_000, few, 100_000, many, answers, 3_600, 12, frozenset(errors))


def _samples(growth: float = 0.0, **last: int) -> tuple[Sample, ...]:
    """An hour of a server that begins with 100 MiB and grows by so many."""
    usual = {"descriptors": 20, "metrics_bytes": 40_000}
    ends = [usual, usual, usual | last]
    return tuple(
        Sample(1_800.0 * number, int((100 + growth * number / 2) * _MIB), **end)
        for number, end in enumerate(ends)
    )


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        (_soaked(*_samples()), None),
        (_soaked(*_samples(0.9)), None),
        (_soaked(*_samples(descriptors=19), series=("a",)), None),
        (_soaked(*_samples(), series=('genguard_refused_requests_total{reason="late"}',)), None),
        (_soaked(*_samples(1.2)), "memory grows by 1.20 ± 0.00 MiB an hour; 1 is allowed"),
        (_soaked(*_samples(descriptors=21)), "21 descriptors, 20 when it was warm"),
        (
            _soaked(*_samples(), series=("a", "b", 'c{name="web"}')),
            '1 metric series that 1,000 objects had not: c{name="web"}',
        ),
        (
            _soaked(*_samples(metrics_bytes=200_001)),
            "/metrics has 200,001 bytes; 200,000 are allowed",
        ),
        (_soaked(*_samples(), wrong=("500: b''",)), "answered 500: b''"),
        (_soaked(*_samples(), errors=("detection failed",)), "logged an error: detection failed"),
    ],
)
def test_each_thing_that_grows_is_told(found, reason):
    assert too_much(found) == ([] if reason is None else [reason])
    assert too_much(found, STEEP) == ([] if reason is None or "memory" in reason else [reason])
    assert memory(found).error == pytest.approx(0.0, abs=1e-6)

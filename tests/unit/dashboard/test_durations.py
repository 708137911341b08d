"""The plot of a histogram: everything within it, and nothing said that only a bucket knows."""

import pytest

from genguard.status.counts import OBSERVATION_SECONDS, DurationHistogram
from webhook.dashboard.durations import BOTTOM, HEIGHT, LEFT, WIDTH, draw, histogram


def drawn(*seconds: float):
    found = DurationHistogram(OBSERVATION_SECONDS)
    for one in seconds:
        found.measure(0.0, None, one)
    return draw(histogram(found))


def test_each_bucket_is_a_bar_with_its_count_and_bounds_in_words():
    bars = drawn(0.005, 0.4, 0.4, 9_999.0).bars
    assert [(one.changes, one.bounds) for one in bars if one.changes] == [
        (1, "≤ 10 ms"),
        (2, "100 ms to 500 ms"),
        (1, "> 30 min"),
    ]
    heights = {one.changes: one.height for one in bars}
    assert heights[2] == 2 * heights[1]
    assert heights[0] == 0


def test_the_axes_have_numbers_with_units():
    found = drawn(0.4)
    assert [one.text for one in found.across] == ["10 ms", "100 ms", "1 s", "15 s", "5 min"]
    assert found.beyond == "> 30 min"


def test_half_and_most_are_bounds_of_buckets_and_never_on_one_another():
    half, most = drawn(*[0.4] * 10).limits
    assert most.x > half.x
    assert half.x in [LEFT + 28 * (number + 1) for number in range(10)]
    assert drawn(*[9_999.0] * 10).limits == (), "above all bounds there is none"


@pytest.mark.parametrize(
    ("most", "ticks"),
    [
        (1, ["0", "1"]),
        (2, ["0", "1", "2"]),
        (3, ["0", "2", "4"]),
        (81, ["0", "50", "100"]),
        (4_000, ["0", "2,000", "4,000"]),
    ],
)
def test_counts_are_read_at_round_numbers(most, ticks):
    found = drawn(*[0.4] * most)
    assert [one.text for one in found.up] == ticks


def test_everything_stays_within_the_plot():
    found = drawn(*[bound for bound in OBSERVATION_SECONDS for _ in range(37)], 9_999.0)
    for bar in found.bars:
        assert LEFT <= bar.x <= WIDTH - 26
        assert 0 < bar.y <= BOTTOM
    assert all(0 < one.at < WIDTH for one in found.across)
    assert all(0 < one.at <= BOTTOM < HEIGHT for one in found.up)

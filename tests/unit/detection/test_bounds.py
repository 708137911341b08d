"""What is remembered of very many objects is bounded, and costs little while it rests."""

import gc
import tracemalloc

import pytest

from tests.bench.tracked import DEPLOYMENTS, PODS, Reviews, follow
from tests.unit.detection.test_history import add, write
from webhook.detection.detection import Detection
from webhook.detection.history import (
    MOST_BYTES,
    MOST_BYTES_AWAKE,
    MOST_OBJECTS,
    History,
)

COUNT = 1_000_000
"""Of 1,000,000, which take 40 s: most of that is packing, since far more objects are written than
may be awake."""


def test_any_number_of_observations_stays_inside_the_bounds():
    history = History(500, most_bytes=1_000_000, most_awake=100_000)
    for number in range(COUNT):
        add(history, write(number * 7919 % 3_000, number / 100))
        assert history.bytes <= 1_000_000
    assert len(history) <= 500


SCALE = 100


@pytest.mark.parametrize(
    ("example", "by_turns"),
    [(PODS, False), (PODS, True), (DEPLOYMENTS, False)],
    ids=["pods", "pods written by turns", "deployments"],
)
def test_a_hundred_thousand_objects_take_less_than_150_mib(example, by_turns):
    """In a model of a hundredth. `make memory` measures all of it."""
    reviews = Reviews(example)
    bounds = MOST_OBJECTS, MOST_BYTES, MOST_BYTES_AWAKE
    history = History(*(most // SCALE for most in bounds))
    follow(Detection(), reviews, 10)  # whatever is made once
    gc.collect()
    tracemalloc.start()
    try:
        follow(Detection(history=history), reviews, MOST_OBJECTS // SCALE, by_turns=by_turns)
        gc.collect()
        taken = tracemalloc.get_traced_memory()[0] * SCALE
    finally:
        tracemalloc.stop()
    assert len(history) == MOST_OBJECTS // SCALE
    assert taken < 150 * 1024 * 1024
    assert history.bytes * SCALE < MOST_BYTES

"""What is remembered is bounded, and costs little while it rests."""

import gc
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.bench.tracked import DEPLOYMENTS, PODS, Reviews, follow
from tests.unit.detection.builders import OUTCOME, joined, status, update
from webhook.detection import packing
from webhook.detection.detection import Detection
from webhook.detection.difference import Reader
from webhook.detection.history import (
    MOST_BYTES,
    MOST_BYTES_AWAKE,
    MOST_OBJECTS,
    WRITES_OF_AN_OBJECT,
    History,
)
from webhook.detection.packing import MOST_EXAMPLES, MOST_RESOURCES, Packer, Remembered
from webhook.detection.write import NOBODY

COUNT = 1_000_000
"""Of 1,000,000, which take 40 s: most of that is packing, since far more objects are written than
may be awake."""
(WRITE,) = joined(
    (OUTCOME, update(status(replicas=2, ready=2), status(replicas=1), subresource="status"))
)


def write(number: int, time: float, base: str = "1"):
    return replace(
        WRITE, object=WRITE.object._replace(uid=f"uid-{number:08}"), time=time, base=base
    )


def add(history: History, one) -> None:
    history.add(history.of(one.object), one)


def test_any_number_of_observations_stays_inside_the_bounds():
    history = History(most_objects=500, most_bytes=1_000_000, most_awake=100_000)
    for number in range(COUNT):
        add(history, write(number * 7919 % 3_000, number / 100))
        assert history.bytes <= 1_000_000
    assert len(history) <= 500


def test_an_object_keeps_its_latest_writes():
    history = History()
    for number in range(100):
        add(history, write(1, number, str(number)))
    past = history.of(WRITE.object._replace(uid="uid-00000001"))
    assert [one.base for one in past.writes] == [str(n) for n in range(100)][-WRITES_OF_AN_OBJECT:]


def test_the_longest_unseen_goes_first_and_the_old_goes_by_itself():
    history = History(most_objects=2)
    for number in (1, 2, 1, 3):
        add(history, write(number, number))
    assert len(history) == 2
    add(history, write(4, 10_000))
    assert len(history) == 1


@given(st.lists(st.integers(0, 20), min_size=1, max_size=60))
@settings(max_examples=50)
def test_an_object_that_rested_is_as_it_was(numbers):
    awake, resting = History(), History(most_awake=1)
    for time, number in enumerate(numbers):
        for history in (awake, resting):
            one = write(number, float(time), str(time))
            past = history.of(one.object)
            list(past.confirm(one.base, one.state_before))
            history.add(past, one)
    for number in set(numbers):
        key = write(number, 0.0).object
        seen, size = resting.look(key), resting.bytes
        assert resting.bytes == size, "to look wakes nobody"
        one, other = awake.of(key), resting.of(key)
        assert one.remembered() == other.remembered() == seen == awake.look(key)
    assert awake.look(WRITE.object._replace(uid="unknown")) is None


def test_what_packs_badly_teaches_and_examples_stay_inside_their_bounds():
    packer = Packer(Reader())
    packed = []
    for resource in range(MOST_RESOURCES + 5):
        for number in range(40):
            name = f"{resource}-{number}"
            one = replace(write(number, float(number), name), known_wanted=number, called=NOBODY)
            one = replace(one, object=one.object._replace(resource=str(resource)))
            remembered = Remembered([one], [one], [])
            where = one.object.group, one.object.resource
            packed.append((where, remembered, packer.pack(where, remembered)))
    for _, remembered, data in packed:
        assert packer.unpack(remembered.writes[0].object, data) == remembered
        assert data.examples <= MOST_EXAMPLES
    with_examples = {where for where, _, data in packed if data.examples}
    assert len(with_examples) == MOST_RESOURCES
    alone, last = (packed[at][2] for at in (0, 39))
    assert len(last.data) < len(alone.data) / 2


SCALE = 100


@pytest.mark.parametrize(
    ("example", "by_turns"),
    [(PODS, False), (PODS, True), (DEPLOYMENTS, False)],
    ids=["pods", "pods written by turns", "deployments"],
)
def test_a_hundred_thousand_objects_take_less_than_150_mib(example, by_turns):
    """In a model of a hundredth. `make memory` measures all of it."""
    reviews = Reviews(example)
    bounds = (MOST_OBJECTS // SCALE, MOST_BYTES // SCALE, MOST_BYTES_AWAKE // SCALE)
    history = History(*bounds)
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


def test_nothing_of_another_kind_is_packed():
    with pytest.raises(NotImplementedError):
        packing._packed(object())

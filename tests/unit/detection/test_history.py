"""What is remembered of each object, and what is forgotten first."""

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.unit.detection.builders import OUTCOME, joined, status, update
from webhook.detection.history import WRITES_OF_AN_OBJECT, History

(WRITE,) = joined(
    (OUTCOME, update(status(replicas=2, ready=2), status(replicas=1), subresource="status"))
)


def write(number: int, time: float, base: str = "1"):
    return replace(
        WRITE, object=WRITE.object._replace(uid=f"uid-{number:08}"), time=time, base=base
    )


def add(history: History, one) -> None:
    history.add(history.of(one.object), one)


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

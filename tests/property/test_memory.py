"""The memory under random operations: never over its bounds, never wrong about what it has."""

from hypothesis import given
from hypothesis import strategies as st

from genguard.admission.review import JoinKey
from genguard.objects.observed import Observed
from genguard.review_setup import MemoryIntents, Recent

OPERATIONS = st.lists(
    st.tuples(st.sampled_from(["put", "get"]), st.integers(0, 6), st.floats(0, 5)), max_size=60
)
KEY = JoinKey("", "pods", "status", "default", "a", "uid", "someone", "7", dry_run=False)


@given(OPERATIONS, st.integers(1, 4), st.floats(1, 10))
def test_what_is_remembered_is_the_newest_and_in_bounds(operations, entries, seconds):
    recent: Recent[int, int] = Recent(seconds, entries, 1_000)
    written: dict[int, tuple[float, int]] = {}
    now = 0.0
    for number, (operation, key, elapsed) in enumerate(operations):
        now += elapsed
        if operation == "put":
            recent.remember(key, number, 1, now)
            written.pop(key, None)
            written[key] = (now, number)
        newest = dict(list(written.items())[-entries:])
        expected = newest.get(key)
        alive = expected is not None and expected[0] > now - seconds
        assert recent.recall(key, now) == (expected[1] if expected and alive else None)
        assert len(recent) <= entries


@given(st.lists(st.tuples(st.sampled_from(["intent", "mutate"]), st.integers(0, 2)), max_size=30))
def test_an_intent_is_answered_only_when_it_cannot_be_another_writes(steps):
    """Between two questions all intents were equal, or there is no answer."""
    intents = MemoryIntents()
    since: list[Observed] = []
    asked = True
    for step, number in steps:
        if step == "intent":
            since = [*([] if asked else since), Observed(number + 1, ())]
            asked = False
            intents.put(KEY, since[-1], 0.0)
        else:
            asked = True
            answer = intents.get(KEY, 0.0)
            assert answer == (since[0] if len(set(since)) == 1 else None)


@given(OPERATIONS)
def test_a_clock_that_stands_or_jumps_back_breaks_nothing(operations):
    recent: Recent[int, int] = Recent(3.0, 3, 1_000)
    for operation, key, now in operations:
        if operation == "put":
            recent.remember(key, key, 1, now)
        else:
            assert recent.recall(key, now) in (None, key)
        assert len(recent) <= 3

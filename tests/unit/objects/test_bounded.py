"""A dictionary with bounds: which entries make room, and what is counted of the others."""

from hypothesis import given
from hypothesis import strategies as st

from genguard.objects.bounded import Bounded

STEPS = st.lists(
    st.tuples(st.sampled_from(["put", "pop"]), st.integers(0, 5), st.integers(0, 12)), max_size=50
)


@given(STEPS, st.integers(1, 4), st.integers(1, 20))
def test_it_has_the_newest_that_fit_and_counts_their_bytes(steps, most, most_bytes):
    bounded: Bounded[int, int] = Bounded(most, most_bytes)
    model: dict[int, int] = {}
    dropped = 0
    for what, key, size in steps:
        model.pop(key, None)
        if what == "put":
            bounded.put(key, size, size)
            model[key] = size
            while len(model) > most or sum(model.values()) > most_bytes:
                del model[next(iter(model))]
                dropped += 1
        else:
            bounded.pop(key)
        assert len(bounded) == len(model)
        assert bounded.bytes == sum(model.values())
        assert [bounded.get(one) for one in range(6)] == [model.get(one) for one in range(6)]
        assert bounded.oldest() == next(iter(model.items()), None)
        assert bounded.dropped == dropped


def test_cleared_it_has_room_again():
    bounded: Bounded[str, int] = Bounded(2, 10)
    bounded.put("a", 1, 10)
    bounded.clear()
    bounded.put("b", 2, 10)
    assert (bounded.get("a"), bounded.get("b"), bounded.dropped) == (None, 2, 0)

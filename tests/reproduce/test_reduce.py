"""Reducing leaves nothing that could go by itself."""

from hypothesis import given
from hypothesis import strategies as st

from genguard.reproduce.reduce import minimal


@given(st.sets(st.integers(0, 40)), st.integers(0, 41))
def test_what_is_left_is_just_what_is_needed(needed, size):
    items = list(range(max([size, *(one + 1 for one in needed)])))
    assert minimal(items, lambda some: needed <= {*some}) == sorted(needed)


@given(st.lists(st.sets(st.integers(0, 12), min_size=1), min_size=1, max_size=4))
def test_of_what_is_left_nothing_can_be_left_out(choices):
    """Each of the sets is enough. The smallest need not be found, but no item is too much."""

    def holds(some):
        return any(one <= {*some} for one in choices)

    left = minimal(range(13), holds)
    assert holds(left)
    assert not any(holds([one for one in left if one != item]) for item in left)

"""A difference of two states: what its leaves say, and what is said without them."""

import pytest

from genguard.detection.changes import Change
from genguard.detection.diff import NO_DIFF, compare, diff_of
from genguard.objects.fields import fields_of


def diff(*leaves: tuple[str, int | None, int]):
    """Of leaves with what they become and their salts."""
    return diff_of(tuple(Change((a,), f"/{a}", 7, after, salt) for a, after, salt in leaves))


A, B, TIME = ("a", 5, 3), ("b", 6, 4), ("time", 9, 0)


@pytest.mark.parametrize(
    ("one", "other", "same", "because"),
    [
        ([A, B], [B, A], True, "in any order"),
        ([A, TIME], [A], True, "times aside"),
        ([TIME], [], True, "nothing but a time is nothing"),
        ([A], [("a", 6, 3)], False, "another value"),
        ([A], [("a", None, 3)], False, "to remove a leaf is something else"),
        ([("a", None, 3)], [("b", None, 4)], False, "so is to remove another leaf"),
        ([A], [B], False, "another leaf"),
        ([A, B], [("a", 6, 3), ("b", 5, 4)], False, "the same values, elsewhere"),
        ([A], [], False, "nothing"),
    ],
)
def test_the_content_hash_depends_on_leaves_and_their_values(one, other, same, because):
    assert (diff(*one).content_hash == diff(*other).content_hash) is same, because


def test_the_content_hash_is_a_small_number():
    most = diff(("a", 2**32 - 1, 65_535), ("b", 2**32 - 1, 65_535))
    assert most.content_hash == 2 * 65_535 * (2**32 - 1) % 2**32
    assert diff().content_hash is None


def fields(value: object):
    return fields_of({"status": {"phase": value}})


def test_what_an_earlier_phase_shows_is_returned_as_it_is():
    known = compare(fields(1), fields(2))
    assert compare(fields(1), fields(2), [known]) is known
    assert compare(fields(1), fields(1), [known]).diff is NO_DIFF

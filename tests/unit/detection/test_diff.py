"""A difference of two states: what its leaves say, and what is said without them."""

import pytest

from genguard.detection import diff as module
from genguard.detection.changes import Change
from genguard.detection.diff import (
    NO_DIFF,
    NOT_COMPARED,
    Compared,
    Comparer,
    between,
    diff_of,
    together,
)
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


def test_states_that_were_not_compared_differ_without_leaves():
    assert NOT_COMPARED
    assert not NO_DIFF
    assert not diff()
    assert (len(NOT_COMPARED), list(NOT_COMPARED), NOT_COMPARED.size) == (0, [], 0)
    assert len(diff(A, B)) == 2


def test_between_states_that_were_not_compared_only_the_difference_is_known():
    known, unknown = Compared(1, 2, diff(A)), Compared(1, 3, NOT_COMPARED)
    assert between(known, unknown) is between(unknown, known) is NOT_COMPARED
    assert between(unknown, Compared(1, 3, NOT_COMPARED)) is NO_DIFF


def test_fields_are_compared_together_where_each_of_them_was():
    known, unknown = Compared(1, 2, diff(A)), Compared(1, 3, NOT_COMPARED)
    assert together(known, Compared(4, 4, NO_DIFF)) == Compared(5, 6, diff(A))
    assert together(known, unknown).diff is NOT_COMPARED


def fields(value: object):
    return fields_of({"status": {"phase": value}})


def test_an_equal_transition_of_one_object_is_compared_once():
    comparer = Comparer()
    first = comparer.compare("a", fields(1), fields(2), 0.0)
    assert comparer.compare("a", fields(1), fields(2), 900.0) is first
    assert comparer.compare("b", fields(1), fields(2), 900.0) is not first
    assert comparer.compare("a", fields(1), fields(3), 900.0) != first


def test_what_an_earlier_phase_shows_is_returned_as_it_is():
    comparer, known = Comparer(), Comparer().compare("a", fields(1), fields(2), 0.0)
    assert comparer.compare("a", fields(1), fields(2), 0.0, [known]) is known
    assert comparer.compare("a", fields(1), fields(1), 0.0, [known]).diff is NO_DIFF


def test_of_one_object_only_so_many_bytes_a_second_are_compared(monkeypatch):
    monkeypatch.setattr(module, "MOST_BYTES_COMPARED", 30)
    comparer = Comparer()

    def is_compared(name: str, value: int, now: float) -> bool:
        return comparer.compare(name, fields(0), fields(value), now).diff.is_compared

    assert is_compared("a", 1, 0.0)
    assert not is_compared("a", 2, 0.5), "it would be too much in this second"
    assert is_compared("a", 1, 0.5), "it is known"
    assert is_compared("b", 2, 0.5), "another object"
    assert is_compared("a", 2, 1.0), "another second"
    assert is_compared("a", 3, 0.0), "the clock was put back"


def test_a_large_transition_is_compared_if_it_is_the_first_of_its_second(monkeypatch):
    monkeypatch.setattr(module, "MOST_BYTES_COMPARED", 1)
    assert Comparer().compare("a", fields(1), fields(2), 0.0).diff.is_compared

"""What is remembered of each object, and what is forgotten first."""

import pytest
from msgspec.structs import replace

from genguard.detection.changes import Change
from genguard.detection.diff import NO_DIFF, diff_of
from genguard.detection.history import (
    LEAVES_OF_AN_OBJECT,
    SECONDS_KEPT,
    WRITES_OF_AN_OBJECT,
    History,
    ObjectHistory,
)
from genguard.detection.write import Requester
from tests.cases_loader import table
from tests.unit.detection.builders import OUTCOME, joined, status, update, with_content

(WRITE,) = joined(
    (OUTCOME, update(status(replicas=2, ready=2), status(replicas=1), subresource="status"))
)


def write(number: int, time: float, base: str = "1"):
    return replace(
        WRITE, object=replace(WRITE.object, uid=f"uid-{number:08}"), time=time, base=base
    )


def later(base: str, state: int = 0):
    """The write that shows what is stored at a version."""
    return replace(write(1, 0.0, base), state_before=state)


def add(history: History, one) -> None:
    history.add(history.of(one.object), one)


def test_an_object_keeps_its_latest_writes():
    history = History()
    for number in range(100):
        add(history, write(1, number, str(number)))
    past = history.of(replace(WRITE.object, uid="uid-00000001"))
    assert [one.base for one in past.writes] == [str(n) for n in range(100)][-WRITES_OF_AN_OBJECT:]


@pytest.mark.parametrize(
    ("often", "seldom"),
    [("status", ""), ("", "status")],
    ids=["status is written often", "spec is written often"],
)
def test_a_part_that_is_written_often_does_not_make_the_other_forgotten(often, seldom):
    history = History()
    for number in range(60):
        subresource = often if number % 30 else seldom
        base = str(number)
        add(history, replace(write(1, float(number), base), subresource=subresource))
    past = history.of(replace(WRITE.object, uid="uid-00000001"))
    bases = [int(one.base) for one in past.writes]
    assert len(bases) == WRITES_OF_AN_OBJECT
    assert bases == sorted(bases)
    assert [number for number in bases if number % 30 == 0] == [0, 30]


def test_the_longest_unseen_goes_first_and_the_old_goes_by_itself():
    history = History(most_objects=2)
    for number in (1, 2, 1, 3):
        add(history, write(number, number))
    assert len(history) == 2
    add(history, write(4, 10_000))
    assert len(history) == 1


REPLICAS, PHASE = ("spec", "replicas"), ("status", "phase")


@table("observations/stored_later.yaml", "candidates", "shows", "stored")
def test_which_writes_were_stored_is_told_by_what_is_stored_later(case):
    past = ObjectHistory()
    found = []
    for number, (base, state) in enumerate(case["candidates"]):
        found.append(past.confirm(later(base, case["candidates"][number - 1][1])))
        past.add(replace(write(1, float(number), base), state_after=state))
    found.append(past.confirm(later(*case["shows"])))
    assert [int(one.time) for one in found if one is not None] == case["stored"], case.because
    assert [int(one.time) for one in past.stored] == case["stored"], case.because
    assert past.confirm(later(*case["shows"])) is None, "it is told once"


def test_a_write_that_changes_nothing_is_not_stored():
    past = ObjectHistory()
    past.add(with_content(write(1, 0.0), admitted=NO_DIFF))
    assert past.confirm(later("2")) is None


def test_one_object_is_remembered_whatever_it_takes():
    history = History(most_objects=0, most_writes=0)
    add(history, write(1, 0.0))
    assert len(history) == 1


@pytest.mark.parametrize(("seconds", "kept"), [(SECONDS_KEPT - 1, True), (SECONDS_KEPT, False)])
def test_an_object_that_was_not_written_for_long_is_forgotten(seconds, kept):
    history = History()
    add(history, write(1, 100.0))
    add(history, write(2, 100.0 + seconds))
    assert (len(history) == 2) is kept


def test_objects_without_a_uid_are_told_apart_by_where_they_are():
    history = History()
    first = replace(WRITE.object, uid="")
    others = [
        replace(first, **{field: "x"}) for field in ("group", "resource", "namespace", "name")
    ]
    for where in (first, *others, replace(first, version="x")):
        history.of(where)
    assert len(history) == 5


@pytest.mark.parametrize(
    ("users", "kept", "because"),
    [
        (("a", "a", "a"), (False, True, True), "of the object that was not written for longest"),
        (("b", "a", "a"), (True, False, True), "an object of several writers keeps its leaves"),
    ],
)
def test_of_too_many_leaves_those_of_calm_objects_are_forgotten(users, kept, because):
    history = History(most_leaves=8)
    for number, user in enumerate(users):
        for turn in range(2):
            by = Requester(user if turn else "a", "")
            add(history, replace(write(number, float(number), str(turn)), requester=by))
    for number, has_leaves in enumerate(kept):
        past = history.of(write(number, 0.0).object)
        assert [bool(one.content.admitted.changes) for one in past.writes] == 2 * [has_leaves]
        assert all(one.content.admitted for one in past.writes), because


def test_of_an_object_that_takes_too_much_the_oldest_writes_go():
    past = ObjectHistory()
    large = diff_of(Change((f"k{one}",), f"/k{one}", 0, 1) for one in range(2_000))
    for number in range(30):
        past.add(with_content(write(1, float(number), str(number)), admitted=large))
        past.confirm(later(str(number + 1)))
    assert len(past.writes) == 4
    assert past.writes == past.stored
    assert past.leaves <= LEAVES_OF_AN_OBJECT

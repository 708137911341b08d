"""What is remembered of each object, and what is forgotten first."""

import gc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.unit.detection.builders import OUTCOME, joined, status, update
from webhook.detection.changes import Change
from webhook.detection.difference import NO_DIFFERENCE, Difference, Reader
from webhook.detection.history import (
    SECONDS_KEPT,
    WRITES_OF_AN_OBJECT,
    History,
    ObjectHistory,
)
from webhook.detection.write import NOBODY, Called, Requester

(WRITE,) = joined(
    (OUTCOME, update(status(replicas=2, ready=2), status(replicas=1), subresource="status"))
)


def write(number: int, time: float, base: str = "1"):
    return replace(
        WRITE, object=replace(WRITE.object, uid=f"uid-{number:08}"), time=time, base=base
    )


def add(history: History, one) -> None:
    history.add(history.of(one.object), one)


def weighed(past: ObjectHistory) -> int:
    """What it weighs when it is weighed for the first time."""
    return ObjectHistory(past.resource, past.remembered()).weight


def test_an_object_keeps_its_latest_writes():
    history = History()
    for number in range(100):
        add(history, write(1, number, str(number)))
    past = history.of(replace(WRITE.object, uid="uid-00000001"))
    assert [one.base for one in past.writes] == [str(n) for n in range(100)][-WRITES_OF_AN_OBJECT:]
    assert past.weight == weighed(past)


def test_the_longest_unseen_goes_first_and_the_old_goes_by_itself():
    history = History(most_objects=2)
    for number in (1, 2, 1, 3):
        add(history, write(number, number))
    assert len(history) == 2
    add(history, write(4, 10_000))
    assert len(history) == 1


def test_the_garbage_collector_looks_at_nothing_that_rests():
    history = History(most_awake=1)

    def looked_at(objects: range) -> int:
        for number in objects:
            add(history, write(number, float(number)))
        gc.collect()
        return len(gc.get_objects())

    before = looked_at(range(100))
    assert looked_at(range(100, 300)) < before + 50


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
    assert awake.look(replace(WRITE.object, uid="unknown")) is None


def changing(*keys: tuple[str, ...], after: int | None = 1) -> Difference:
    """Other values at these places, or none."""
    return Difference(tuple(Change(key, "/" + "/".join(key), 0, after, 1) for key in keys))


REPLICAS, PHASE = ("spec", "replicas"), ("status", "phase")
RESULT = changing(REPLICAS)


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=60),
    st.sampled_from([1, 5_000, 1_000_000]),
    st.sampled_from([3_000, 8_000, 1_000_000]),
)
@settings(max_examples=50)
def test_what_is_counted_is_what_is_kept(steps, most_awake, most_bytes):
    history = History(most_objects=2, most_bytes=most_bytes, most_awake=most_awake)
    for time, (number, base) in enumerate(steps):
        one = write(number, float(time), str(base))
        past = history.of(one.object)
        list(past.confirm(one.base, one.state_before))
        history.add(past, one)
        awake = history._awake
        rest = history._resting.values()
        assert history._bytes_awake == sum(one.bytes for one in awake.values())
        assert history.bytes == history._bytes_awake + sum(250 + len(one) for one in rest)
        assert not awake.keys() & history._resting.keys()
        assert past.bytes == past.weight == weighed(past)


def test_a_write_weighs_what_differs_in_it_once():
    def weight(**differences: Difference | None) -> int:
        past = ObjectHistory(("apps", "deployments"))
        past.add(replace(WRITE, result=RESULT, **differences))
        return past.weight

    least = {"asked": None, "others": None, "again": NO_DIFFERENCE}
    some = changing(REPLICAS, PHASE)
    for name in least:
        more = weight(**{**least, name: some}) - weight(**least)
        assert more == 2 * some.weight, f"{name}, in two lists"
    assert weight(**{**least, "asked": RESULT}) == weight(**least), "it is the same"
    assert weight(**least) == 700 + 2 * (500 + RESULT.weight)


def test_what_was_read_is_weighed_anew():
    history, reader = History(), Reader()
    raw = changing(REPLICAS, PHASE).packed()
    past = history.of(WRITE.object)
    unread = Difference.unread(raw, len(raw), history.reader)
    history.add(past, replace(WRITE, result=unread, asked=None, others=None))
    before = past.weight
    _ = unread.leaves
    assert past.weight == before
    history.weigh(past)
    assert past.weight - before == 2 * (
        unread.weight - Difference.unread(raw, len(raw), reader).weight
    )
    assert history.bytes == past.weight


@pytest.mark.parametrize(
    ("candidates", "shows", "stored", "because"),
    [
        ([("1", 5)], ("2", 5), [0], "another version is there now"),
        ([("1", 5)], ("1", 5), [], "still the one that it was written on"),
        ([("1", 5)], ("2", 9), [0], "with nobody else on its version it was stored, whatever came"),
        ([("1", 5), ("1", 6)], ("2", 6), [1], "of two on one version that which is there"),
        ([("1", 5), ("1", 6)], ("2", 7), [], "neither is there"),
        ([("1", 5), ("1", 5)], ("2", 5), [0], "no more than one was stored"),
        ([("1", 5), ("1", 6), ("2", 7)], ("3", 5), [2], "of the earlier two nothing is known"),
        ([("1", 5), ("2", 6)], ("3", 6), [0, 1], "one after the other"),
        ([("1", 5), ("2", 6)], ("2", 5), [0], "the other one waits"),
    ],
)
def test_which_writes_were_stored_is_told_by_what_is_stored_later(
    candidates, shows, stored, because
):
    past = ObjectHistory(("apps", "deployments"))
    for number, (base, state) in enumerate(candidates):
        past.add(replace(write(1, float(number), base), state_after=state))
    found = [int(one.time) for one in past.confirm(*shows)]
    assert found == [int(one.time) for one in past.stored] == stored, because
    assert list(past.confirm(*shows)) == [], "it is told once"
    waiting = [int(one.time) for one in past.remembered().candidates]
    assert waiting == [at for at, (base, _) in enumerate(candidates) if base == shows[0]]


def test_a_write_that_changes_nothing_is_not_stored():
    past = ObjectHistory(("apps", "deployments"))
    past.add(replace(write(1, 0.0), result=NO_DIFFERENCE))
    assert list(past.confirm("2", 0)) == []


@pytest.mark.parametrize(
    ("writers", "several", "because"),
    [
        ([("a", "status"), ("a", "status")], (False, False), "one and the same"),
        ([("a", "status"), ("b", "status")], (True, False), "two write status"),
        ([("a", "status"), ("b", "status"), ("b", "status")], (True, False), "and one again"),
        ([("a", "spec"), ("b", "status")], (False, False), "each a part of its own"),
        ([("a", "spec"), ("b", "spec")], (False, True), "two write the rest"),
        ([("a", "both"), ("b", "status")], (True, False), "who writes all writes status, too"),
        ([("a", "both"), ("b", "spec")], (False, True), "and the rest"),
        ([("a", "spec"), ("a", "status")], (False, False), "one writes both"),
    ],
)
def test_whether_several_wrote_a_part_of_an_object(writers, several, because):
    past = ObjectHistory(("apps", "deployments"))
    for user, part in writers:
        subresource = "status" if part == "status" else ""
        asker = Requester(user, "")
        takes = part != "spec"
        past.add(replace(WRITE, requester=asker, subresource=subresource, writes_status=takes))
    for one in (past, ObjectHistory(past.resource, past.remembered())):
        assert (one.several_wrote(status=True), one.several_wrote(status=False)) == several, because


@pytest.mark.parametrize(
    ("writes", "user", "leaf", "setter", "because"),
    [
        ([("a", REPLICAS, 1)], "b", REPLICAS, "a", "a set it"),
        ([("a", REPLICAS, 1)], "a", REPLICAS, None, "the same one did"),
        (
            [("a", REPLICAS, 1), ("b", REPLICAS, None)],
            "b",
            REPLICAS,
            "a",
            "to remove is not to set",
        ),
        ([("a", REPLICAS, 1), ("b", REPLICAS, 2)], "b", REPLICAS, None, "it was set once more"),
        ([("a", REPLICAS, 1), ("b", REPLICAS, 2)], "c", REPLICAS, "b", "the last one counts"),
        ([("a", REPLICAS, 1), ("b", PHASE, 2)], "c", REPLICAS, "a", "another leaf"),
        ([("a", PHASE, 1), ("b", REPLICAS, 2)], "c", PHASE, "a", "another leaf of spec"),
        ([("a", PHASE, 1)], "b", PHASE, "a", "of status, too"),
        ([("a", REPLICAS, 1), ("b", PHASE, 2)], "a", PHASE, "b", "it only writes spec itself"),
        ([("a", PHASE, 1), ("b", REPLICAS, 2)], "a", REPLICAS, "b", "it only writes status"),
        ([], "b", PHASE, None, "nobody did"),
    ],
)
def test_who_last_set_a_leaf(writes, user, leaf, setter, because):
    past = ObjectHistory(("apps", "deployments"))
    for name, key, after in writes:
        sent = changing(key, after=after)
        takes = key is PHASE
        past.add(
            replace(WRITE, requester=Requester(name, ""), asked=sent, result=sent,
                    writes_status=takes, subresource="status" if takes else "")
        )  # fmt: skip
    found = past.last_setter_but(user, leaf)
    assert (found and found.user) == setter, because


@pytest.mark.parametrize(
    ("writes", "user", "answer", "because"),
    [
        ([("a", 1), ("b", None)], "b", True, "a set one"),
        ([("a", 1), ("b", None)], "a", False, "b took one away"),
        ([("a", 1), ("b", 2)], "a", True, "both did"),
        ([("a", 1), ("a", 2)], "b", False, "nobody but a has written: who b is will be seen"),
        ([("a", 1), ("b", None), ("c", 1)], "a", True, "a third one did"),
    ],
)
def test_whether_others_set_anything_in_status(writes, user, answer, because):
    past = ObjectHistory(("apps", "deployments"))
    for name, after in writes:
        sent = changing(PHASE, after=after)
        one = replace(WRITE, requester=Requester(name, ""), asked=sent, result=sent)
        past.add(replace(one, writes_status=True, subresource="status"))
    assert past.others_set_status(user) is answer, because


def test_what_others_did_is_not_read_to_know_whether_they_may_have_set_anything():
    past, reader = ObjectHistory(("apps", "deployments")), Reader()
    raw = changing(PHASE, after=None).packed()
    for user in ("a", "b"):
        sent = Difference.unread(raw, len(raw), reader)
        one = replace(WRITE, requester=Requester(user, ""), asked=None, result=sent)
        past.add(replace(one, writes_status=True, subresource="status"))
    assert past.others_set_status("a")
    assert reader.reads == 0
    _ = past.writes[1].sent.leaves
    assert not past.others_set_status("a"), "it took something away"


def test_a_status_that_the_server_does_not_take_sets_nothing():
    past, sent = ObjectHistory(("apps", "deployments")), changing(PHASE)
    for user, takes in (("a", True), ("b", False)):
        one = replace(WRITE, requester=Requester(user, ""), asked=sent, writes_status=takes)
        past.add(one)
    assert past.last_setter_but("c", PHASE) == Requester("a", "")


def test_what_writes_have_in_common_is_kept_once_and_who_was_called_is_not():
    past = ObjectHistory(("apps", "deployments"))
    for version in ("v1", "v1", "v1beta1"):
        where = replace(WRITE.object, version=version)
        past.add(replace(WRITE, object=where, called=Called(("a",), ())))
    first, second, other = past.writes
    assert first.object is second.object
    assert other.object.version == "v1beta1"
    assert {one.called for one in past.writes} == {NOBODY}


def resting(history: History) -> list[str]:
    return list(history._resting)


def names(*numbers: int) -> list[str]:
    return [f"uid-{number:08}" for number in numbers]


def size() -> int:
    """Of one object with one write; less once that was read."""
    history = History()
    add(history, write(1, 0.0))
    return history.bytes


def test_the_longest_unseen_rests_as_soon_as_there_is_more_than_may_be_awake():
    history = History(most_awake=2 * size())
    for time, number in enumerate((1, 2)):
        add(history, write(number, float(time)))
    assert resting(history) == []
    history.of(write(1, 0.0).object)  # is looked at, and so younger than the other
    add(history, write(3, 2.0))
    assert resting(history) == names(2)


def test_rather_than_be_forgotten_objects_rest():
    history = History(most_bytes=2 * size() + size() // 2)
    for number in (1, 2, 3):
        add(history, write(number, float(number)))
    assert len(history) == 3
    assert resting(history) == names(1)


@pytest.mark.parametrize(
    ("most_awake", "left"),
    [(1_000_000, ([], names(2, 3))), (1, (names(2), names(3)))],
    ids=["awake", "resting"],
)
def test_of_too_many_objects_the_longest_unseen_goes_with_all_that_is_counted_of_it(
    most_awake, left
):
    history = History(most_objects=2, most_awake=most_awake)
    for number in (1, 2, 3):
        add(history, write(number, float(number)))
    assert (resting(history), list(history._awake)) == left
    assert history._bytes_awake == len(left[1]) * size()
    packed = history._resting.values()
    assert history.bytes == history._bytes_awake + sum(250 + len(one) for one in packed)


def test_as_many_bytes_as_are_allowed_are_kept():
    history = History(most_bytes=2 * size())
    for number in (1, 2):
        add(history, write(number, float(number)))
    assert (len(history), resting(history)) == (2, [])


def test_the_object_that_was_written_last_is_awake_whatever_it_takes():
    history = History(most_awake=1)
    for number in (1, 2, 3):
        add(history, write(number, float(number)))
    assert resting(history) == names(1, 2)


def test_one_object_is_remembered_whatever_it_takes():
    history = History(most_objects=0, most_bytes=1, most_awake=1)
    add(history, write(1, 0.0))
    assert (len(history), resting(history)) == (1, [])


@pytest.mark.parametrize(("seconds", "kept"), [(SECONDS_KEPT - 1, True), (SECONDS_KEPT, False)])
@pytest.mark.parametrize("most_awake", [1, 1_000_000], ids=["resting", "awake"])
def test_what_was_not_written_for_long_is_forgotten(seconds, kept, most_awake):
    history = History(most_awake=most_awake)
    add(history, write(1, 100.0))
    add(history, write(2, 100.0 + seconds))
    assert (len(history) == 2) is kept


@pytest.mark.parametrize(("seconds", "kept"), [(SECONDS_KEPT - 1, True), (SECONDS_KEPT, False)])
def test_to_wake_an_object_makes_it_no_younger(seconds, kept):
    history = History(most_awake=2 * size() + size() // 2)
    for number, time in ((1, 100.0), (2, 0.0), (3, 0.0)):
        add(history, write(number, time))
    assert resting(history) == names(1)
    history.of(write(1, 0.0).object)
    add(history, write(4, 100.0 + seconds))
    assert (len(history), resting(history)) == (1 + kept, [])


def test_objects_without_a_uid_are_told_apart_by_where_they_are():
    history = History()
    first = replace(WRITE.object, uid="")
    others = [
        replace(first, **{field: "x"}) for field in ("group", "resource", "namespace", "name")
    ]
    for where in (first, *others, replace(first, version="x")):
        history.of(where)
    assert len(history) == 5

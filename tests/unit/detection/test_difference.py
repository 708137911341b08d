"""What differs is read when it is asked for, once, and weighs what it takes."""

import msgspec
import pytest
from hypothesis import given

from tests.property.test_changes import DOCUMENTS, KEYS
from tests.unit.detection.builders import MUTATE, OUTCOME, feed, status, update
from webhook.detection.changes import Change, changes
from webhook.detection.compared import MOST_UNREAD, compare
from webhook.detection.detection import Detection
from webhook.detection.difference import NO_DIFFERENCE, Difference, Reader, from_plain, plain
from webhook.objects.fields import fields_of


def unread(before, after, reader=None):
    return compare(fields_of(before), fields_of(after), reader or Reader()).changes


def packed(one: Difference) -> Difference:
    """As after a rest."""
    raw = one.packed()
    return Difference.unread(raw, len(raw), Reader()) if raw else NO_DIFFERENCE


def sent(one: Difference) -> Difference:
    """As another replica has it."""
    raw = msgspec.msgpack.encode(one, enc_hook=plain)
    return msgspec.msgpack.decode(raw, type=Difference, dec_hook=from_plain)


@given(DOCUMENTS, DOCUMENTS)
def test_late_or_at_once_packed_or_sent_the_leaves_are_the_same(before, after):
    found = unread(before, after)
    assert bool(found) == (before != after or repr(before) != repr(after))
    direct = changes(fields_of(before), fields_of(after), KEYS)
    for one in (packed(unread(before, after)), sent(unread(before, after)), found):
        assert one.leaves == direct
        assert (one == Difference(direct, differs=bool(found))) is True
        assert one.wanted == found.wanted
        assert packed(one) == packed(packed(one)) == one


CONDITIONS = [{"type": "Ready", "status": "True"}, {"type": "Available", "status": "True"}]


def test_conditions_in_another_order_differ_in_no_leaf():
    one = {"status": {"conditions": CONDITIONS}}
    other = {"status": {"conditions": CONDITIONS[::-1]}}
    for found in (unread(one, other), packed(unread(one, other)), sent(unread(one, other))):
        assert found, "another version is stored"
        assert found.leaves == ()
        assert found.wanted is None
    assert unread(one, one) is NO_DIFFERENCE


def test_it_is_read_once_and_then_weighs_what_was_read():
    reader = Reader()
    found = unread({"status": {"a": 1}}, {"status": {"a": 2, "b": "long" * 1_000}}, reader)
    assert found.weight > 2_000
    assert reader.reads == 0, "that it differs is known without"
    assert found
    assert [one.pointer for one in found] == [one.pointer for one in found]
    assert len(found) == 2
    assert reader.reads == 1
    assert found.weight < 1_000


def test_it_weighs_about_what_it_takes():
    both = unread({"status": {"a": 1, "b": 1}}, {"status": {"a": 2, "b": 20}})
    before = len(b'{"a":1,"b":1}{"a":2,"b":20}')
    assert both.weight == 350 + before // 2, "half of it, for it is in two lists"
    resting = packed(both)
    assert both.leaves == resting.leaves
    assert (both.weight, resting.weight) == (2 * 80, 2 * 250), "paths that were packed are its own"
    assert Difference(both.leaves).weight == 2 * 80


@pytest.mark.parametrize(
    ("more", "reads"), [(0, 0), (1, 1)], ids=["as large as may wait", "a byte more"]
)
def test_what_is_large_is_read_at_once(more, reads):
    reader = Reader()
    text = "." * (MOST_UNREAD // 2 - len('""'))
    unread({"data": text}, {"data": "," * (len(text) + more)}, reader)
    assert reader.reads == reads


def wanted(*leaves: tuple[str, int | None, int]) -> int | None:
    """Of leaves with what they become and their salts."""
    return Difference(
        tuple(Change((a,), f"/{a}", 7, after, salt) for a, after, salt in leaves)
    ).wanted


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
def test_what_was_wanted_is_told_by_leaves_and_their_values(one, other, same, because):
    assert (wanted(*one) == wanted(*other)) is same, because


def test_what_was_wanted_is_a_small_number():
    assert (
        wanted(("a", 2**32 - 1, 65_535), ("b", 2**32 - 1, 65_535))
        == 2 * 65_535 * (2**32 - 1) % 2**32
    )
    assert wanted() is None


def test_what_cannot_be_decoded_is_counted_and_has_no_leaves():
    reader = Reader()
    broken = {"status": msgspec.Raw(b'{"a": 1e}')}
    found = compare(fields_of({"status": {"a": 2}}), broken, reader).changes
    assert list(found) == list(found) == []
    assert reader.unreadable == 1


@pytest.mark.parametrize("raw", [b"1", b"\xa1a", b"\x91\x01"], ids=["number", "text", "no leaf"])
def test_what_another_replica_sends_and_is_none_is_refused(raw):
    with pytest.raises(msgspec.ValidationError):
        msgspec.msgpack.decode(raw, type=Difference, dec_hook=from_plain)


def writes(detection: Detection, *users: str, seconds: float) -> None:
    """Status writes, each with a new value, each stored."""
    for number, user in enumerate(users):
        one = update(
            status(replicas=number + 1),
            status(replicas=number),
            base=str(number),
            subresource="status",
            user=user,
        )
        for phase in (MUTATE, OUTCOME):
            feed(detection, phase, one, number * seconds)


@pytest.mark.parametrize(
    ("users", "seconds", "read"),
    [
        pytest.param("aaaaa", 30.0, False, id="nobody else writes status, and not often"),
        pytest.param("aaaaa", 1.0, True, id="often enough to be a storm"),
        pytest.param("ab", 30.0, True, id="two may fight"),
    ],
)
def test_of_an_object_that_cannot_loop_nothing_is_read(users, seconds, read):
    detection = Detection()
    writes(detection, *users, seconds=seconds)
    assert (detection.history.reader.reads > 0) is read

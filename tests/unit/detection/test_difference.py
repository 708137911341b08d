"""What differs is read when it is asked for, once, and weighs what it takes."""

from itertools import pairwise

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
    assert both.weight == 150 + before // 2, "half of it, for it is in two lists"
    two = unread({"data": 1, "status": 1}, {"data": 22, "status": 22})
    assert two.weight == 150 + len(b"122122") // 2, "of all fields"
    resting = packed(both)
    assert not both.is_read
    assert both.leaves == resting.leaves
    assert both.is_read
    read = sum(one.size for one in both.leaves) // 2
    assert both.weight == resting.weight == Difference(both.leaves).weight == read


@pytest.mark.parametrize(
    ("more", "reads"), [(0, 0), (1, 1)], ids=["as large as may wait", "a byte more"]
)
def test_what_is_large_is_read_at_once(more, reads):
    reader = Reader()
    text = "." * (MOST_UNREAD // 2 - len('""'))
    unread({"data": text}, {"data": "," * (len(text) + more)}, reader)
    assert reader.reads == reads


def following(*states: dict[str, object] | None, key: str = "status") -> list[Difference]:
    """Differences of one state to the next, each told what led to its first."""
    found = []
    for before, after in pairwise(states):
        one = unread(*({} if it is None else {key: it} for it in (before, after)))
        if found:
            one.follows(found[-1])
        found.append(one)
    return found


def test_what_one_has_led_to_and_the_next_begins_with_is_kept_once():
    one, other = following({"n": 1}, {"n": 222}, {"n": 3})
    direct = unread({"status": {"n": 222}}, {"status": {"n": 3}})
    assert other._unread[0][1] is one._unread[0][2]
    other.follows(one)
    assert other.weight == direct.weight - len(b'{"n":222}') // 2, "once"
    assert other == direct


@pytest.mark.parametrize(
    ("earlier", "later", "because"),
    [
        (({"n": 1}, {"n": 2}), ({"n": 3}, {"n": 4}), "something came in between"),
        (({"n": 1}, None), (None, {"n": 4}), "there is nothing to keep"),
        (({"n": 1}, {"n": 1}), ({"n": 1}, {"n": 4}), "nothing differed"),
    ],
)
def test_what_has_nothing_in_common_stays_apart(earlier, later, because):
    (one,), (other,) = following(*earlier), following(*later)
    weight = other.weight
    other.follows(one)
    assert other.weight == weight, because


def test_fields_of_other_names_have_nothing_in_common():
    (one,), (other,) = following({}, {"n": 1}), following({"n": 1}, {"n": 2}, key="spec")
    weight = other.weight
    other.follows(one)
    assert other.weight == weight


def test_what_was_read_or_packed_has_nothing_to_share():
    one, other = following({"n": 1}, {"n": 2}, {"n": 3})
    for two in ((one, packed(other)), (packed(one), other)):
        weight = two[1].weight
        two[1].follows(two[0])
        assert two[1].weight == weight
    _ = other.leaves
    other.follows(one)
    assert other.weight == Difference(other.leaves).weight


@pytest.mark.parametrize(
    ("earlier", "later", "answer", "because"),
    [
        ({"status": 2}, ({"status": 2}, {"status": 3}), True, "it was kept"),
        ({"status": 2}, ({"status": 1}, {"status": 2}), False, "it was not"),
        ({"status": 2}, ({"spec": 1}, {"spec": 2}), True, "another field is asked for"),
        ({"status": 2}, ({"status": 2, "spec": 1}, {"status": 3, "spec": 2}), True, "one more"),
        ({"status": 2, "spec": 2}, ({"status": 2}, {"status": 3}), True, "one less"),
        ({"status": 2, "spec": 2}, ({"status": 2, "spec": 1}, {}), False, "one of them was not"),
    ],
)
def test_whether_one_begins_with_what_another_has_led_to(earlier, later, answer, because):
    one, other = unread({}, earlier), unread(*later)
    assert other.begins_with(one) is answer, because
    assert not packed(other).begins_with(one), "to be read"
    assert not other.begins_with(packed(one))
    assert not other.begins_with(NO_DIFFERENCE)
    _ = one.leaves
    assert not other.begins_with(one)


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


def writes(detection: Detection, *users: str, seconds: float, kept: bool = True) -> None:
    """Status writes, each with a new value, each stored; what is not kept is gone by the next."""
    for number, user in enumerate(users):
        one = update(
            status(replicas=number + 1),
            status(replicas=number if kept else 0),
            base=str(number),
            subresource="status",
            user=user,
        )
        for phase in (MUTATE, OUTCOME):
            feed(detection, phase, one, number * seconds)


@pytest.mark.parametrize(
    ("users", "seconds", "kept", "read"),
    [
        pytest.param("aaaaa", 30.0, False, False, id="nobody else writes status, and not often"),
        pytest.param("aaaaa", 1.0, True, False, id="often, and what was asked for is there"),
        pytest.param("aaaaa", 1.0, False, True, id="often enough to be a storm"),
        pytest.param("ab", 30.0, True, True, id="two may fight"),
    ],
)
def test_of_an_object_that_cannot_loop_nothing_is_read(users, seconds, kept, read):
    detection = Detection()
    writes(detection, *users, seconds=seconds, kept=kept)
    assert (detection.history.reader.reads > 0) is read

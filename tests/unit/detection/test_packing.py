"""What rests is packed to a few bytes, and is afterwards as it was."""

import pytest
from msgspec.structs import replace

from tests.unit.detection.builders import INTENT, MUTATE, OUTCOME, joined, status, update
from tests.unit.detection.test_history import write
from webhook.detection import packing
from webhook.detection.difference import NO_DIFFERENCE, Reader
from webhook.detection.packing import MOST_RESOURCES, Packed, Packer, Remembered, seen_of
from webhook.detection.write import NOBODY, Called, Requester

HERE = ("apps", "deployments")
OLD, SENT, LEFT = status(n=0), status(n=1, observedGeneration=1), status(n=1)


def seen(left, base: str = "7", **more):
    """A write of three phases; `left` is what webhooks made of it."""
    shown = (INTENT, SENT), (MUTATE, left), (OUTCOME, left)
    phases = [(phase, update(new, OLD, base, subresource="status", **more)) for phase, new in shown]
    (found,) = joined(*phases)
    return replace(found, called=NOBODY)


def rested(remembered: Remembered) -> Remembered:
    packer = Packer(Reader())
    return packer.unpack(remembered.writes[0].object, packer.pack(HERE, remembered))


AS_ASKED, CHANGED = seen(SENT), seen(LEFT, "8")


def test_writes_are_as_they_were_and_in_the_same_lists():
    both = [AS_ASKED, CHANGED]
    before = Remembered(both, both[:1], both[1:])
    after = rested(before)
    assert after == before
    assert after.stored[0] is after.writes[0]
    assert after.candidates[0] is after.writes[1]


def test_each_write_is_packed_once_and_what_it_says_twice_is_left_out():
    wire = packing._wire(Remembered([AS_ASKED, CHANGED], [CHANGED], [AS_ASKED]))
    assert [one.object.uid for one in wire.every] == ["", ""]
    assert [one.asked for one in wire.every] == [None, CHANGED.asked]
    assert (wire.as_asked, wire.writes, wire.stored, wire.candidates) == ([0], [0, 1], [1], [0])


def test_what_the_server_made_of_an_observed_generation_stays_another_value():
    shown = (INTENT, SENT), (MUTATE, SENT), (OUTCOME, LEFT)
    phases = [(phase, update(new, OLD, subresource="status")) for phase, new in shown]
    (before,) = joined(*phases)
    (after,) = rested(Remembered([replace(before, called=NOBODY)], [], [])).writes
    assert (after.observed_sent.own, after.observed_after.own) == (1, None)


def test_equal_values_are_one_again():
    (one, other) = rested(Remembered([AS_ASKED, CHANGED], [], [])).writes
    assert one.requester is other.requester
    assert one.object is other.object
    assert one.asked is one.result, "it came as it was asked for"
    assert other.asked is not other.result
    assert one.observed_asked is one.observed_sent is one.observed_after
    assert other.observed_asked is not other.observed_after
    assert other.observed_sent is other.observed_after
    assert one.others is NO_DIFFERENCE


def test_another_requester_stays_another():
    writes = [AS_ASKED, seen(SENT, "8", user="other")]
    assert [one.requester.user for one in rested(Remembered(writes, [], [])).writes] == [
        "someone",
        "other",
    ]


def test_who_was_called_is_not_remembered():
    (one,) = rested(Remembered([replace(AS_ASKED, called=Called(("a",), ()))], [], [])).writes
    assert one.called == NOBODY


def test_what_is_packed_tells_when_it_was_seen_and_nothing_is_as_old_as_can_be():
    packer, late = Packer(Reader()), replace(AS_ASKED, time=200.0)
    joined = packer.pack(HERE, Remembered([AS_ASKED, late], [], []))
    packed = Packed.of(joined)
    assert (packed.seen, packed.examples) == (seen_of(joined), 0) == (200.0, 0)
    empty = packer.pack(HERE, Remembered([], [], []))
    assert seen_of(empty) == 0.0
    assert packer.unpack(late.object, empty) == Remembered([], [], [])


def test_what_was_unpacked_is_read_when_somebody_asks_and_counted():
    reader = Reader()
    packer = Packer(reader)
    packed = packer.pack(HERE, Remembered([AS_ASKED], [], []))
    (one,) = packer.unpack(AS_ASKED.object, packed).writes
    assert reader.reads == 0
    assert one.result == AS_ASKED.result
    assert reader.reads == 1
    assert Packed.of(packer.pack(HERE, Remembered([one], [], []))).examples > 0


def test_what_is_like_what_rests_already_takes_little_and_teaches_nothing():
    packer = Packer(Reader())
    sizes, examples = [], []
    for number in range(5):
        one = replace(write(number, float(number), str(number)), requester=Requester("u" * 200, ""))
        packed = Packed.of(packer.pack(HERE, Remembered([one], [], [])))
        sizes.append(len(packed.data))
        examples.append(packed.examples)
    assert sizes[1] < sizes[0] / 2
    assert examples[0] == 0
    assert len(set(examples[1:])) < 4


def test_what_packs_badly_teaches_and_examples_stay_inside_their_bounds(monkeypatch):
    monkeypatch.setattr(packing, "MOST_EXAMPLES", 2_000)
    packer = Packer(Reader())
    packed = []
    for resource in range(MOST_RESOURCES + 5):
        for number in range(40):
            name = f"{resource}-{number}"
            one = replace(write(number, float(number), name), known_wanted=number, called=NOBODY)
            one = replace(one, object=replace(one.object, resource=str(resource)))
            remembered = Remembered([one], [one], [])
            where = one.object.group, one.object.resource
            packed.append((where, remembered, packer.pack(where, remembered)))
    for _, remembered, data in packed:
        assert packer.unpack(remembered.writes[0].object, data) == remembered
        assert Packed.of(data).examples <= 2_000
    assert max(Packed.of(data).examples for _, _, data in packed) == 2_000
    with_examples = {where for where, _, data in packed if Packed.of(data).examples}
    assert len(with_examples) == MOST_RESOURCES
    alone, last = (Packed.of(packed[at][2]) for at in (0, 39))
    assert len(last.data) < len(alone.data) / 2


def test_nothing_of_another_kind_is_packed():
    with pytest.raises(NotImplementedError):
        packing._packed(object())

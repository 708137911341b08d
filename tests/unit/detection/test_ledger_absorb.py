"""What a replica found while it was alone is added to what the others have, once."""

import dataclasses

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from genguard.detection.detection import Detection
from genguard.detection.detectors import Blame, Signal
from genguard.detection.fact import encode_fact
from genguard.detection.finding_state import QUIET_SECONDS, WINDOW_SECONDS
from genguard.detection.ledger import Ledger
from genguard.detection.suspects import Suspects
from genguard.detection.write import Called
from tests.unit.detection.builders import INTENT, MUTATE, OUTCOME, fact, status, update
from tests.unit.detection.test_ledger import SIGN, WRITE

TIMES = st.integers(0, int(QUIET_SECONDS) - 1)
SIGNS = st.builds(
    dataclasses.replace,
    st.just(SIGN),
    blame=st.sampled_from(Blame),
    minor=st.booleans(),
    requesters=st.sampled_from([(), (WRITE.requester,)]),
)
CALLED = st.sampled_from([("aaa/h",), ("bbb/h",), ("aaa/h", "bbb/h")])


def ledger_of(*times: float, sign: Signal = SIGN) -> Ledger:
    ledger = Ledger(Suspects())
    for time in times:
        ledger.add("spec-fight", sign, replace(WRITE, time=time))
    return ledger


GOOD = next(ledger_of(1.0).rows())


@given(st.lists(st.tuples(TIMES, SIGNS, CALLED, st.booleans()), min_size=1))
@settings(deadline=None)
def test_signs_that_two_have_entered_count_as_if_one_had(signs):
    one, other, together = ledgers = [Ledger(Suspects()) for _ in range(3)]
    for time, sign, called, is_others in sorted(signs, key=lambda sign: sign[0]):
        write = replace(WRITE, time=float(time), called=Called(called, ()))
        for ledger in (ledgers[is_others], together):
            ledger.add("spec-fight", sign, write)
    one.absorb(other.rows())
    assert one.findings() == together.findings()
    assert list(one.marks()) == list(together.marks())


@pytest.mark.parametrize(("apart", "count"), [(0.0, 3), (1.0, 1)])
def test_signs_too_far_apart_are_not_one_loop_and_the_later_ones_stay(apart, count):
    early, late = (1_000.0, 1_001.0), (1_001.0 + WINDOW_SECONDS + apart,)
    for mine, theirs in ((early, late), (late, early)):
        ledger = ledger_of(*mine)
        ledger.absorb(ledger_of(*theirs).rows())
        (finding,) = ledger.findings()
        assert finding.count == count


def test_what_came_back_elsewhere_stays_open_for_longer_here():
    here, there = ledger_of(119.0), ledger_of(0.0, 1.0, 61.0)
    here.absorb(there.rows())
    pace = 119.0 / 3
    assert not list(here.settle(119.0 + 8 * pace - 0.1))
    assert list(here.settle(119.0 + 8 * pace))


def test_what_was_said_last_is_told_whoever_said_it():
    early = ledger_of(0.0), ledger_of(0.0)
    late = [ledger_of(1.0, sign=dataclasses.replace(SIGN, message="again")) for _ in early]
    for one, other in (early[0], late[0]), (late[1], early[1]):
        one.absorb(other.rows())
        assert [finding.message for finding in one.findings()] == ["again"]


def test_what_is_open_elsewhere_is_open_here():
    here, there = ledger_of(0.0), ledger_of(QUIET_SECONDS + 1.0)
    assert list(here.settle(QUIET_SECONDS))
    here.absorb(there.rows())
    assert [one.state for one in here.findings()] == ["open"]


@pytest.mark.parametrize(
    "row",
    [
        b"",
        msgspec.msgpack.encode({"id": "1"}),
        GOOD[1].replace(msgspec.msgpack.encode(1.0), msgspec.msgpack.encode(1e300)),
    ],
    ids=["empty", "another kind", "times beyond all years"],
)
def test_rows_that_are_wrong_add_nothing(row):
    ledger = ledger_of(0.0)
    before = ledger.findings()
    with pytest.raises((msgspec.MsgspecError, ValueError)):
        ledger.absorb([GOOD, ("spec-fight\0a", row)])
    assert ledger.findings() == before


def clobbered(base: str, now: float):
    sent, left = status(observedGeneration=1), status()
    for phase, new in ((INTENT, sent), (MUTATE, left), (OUTCOME, left)):
        yield fact(phase, update(new, status(), base, subresource="status"), now)


def test_while_the_store_is_lost_each_finds_by_itself_and_afterwards_all_have_the_same():
    first, second, third = replicas = [Detection() for _ in range(3)]
    for number in range(3):
        for one in clobbered(str(number), 100.0 + number):
            for replica in replicas:
                replica.see_encoded(encode_fact(one))
    for number, replica in ((10, first), (11, first), (20, second)):
        for one in clobbered(str(number), 110.0 + number):
            replica.see_alone(one)
    for replica in replicas:
        replica.end_wait()
    assert [[one.count for one in replica.findings()] for replica in replicas] == [[5], [4], [3]]
    rows = [replica.found_alone() for replica in replicas]
    for number, replica in enumerate(replicas):
        for other, found in enumerate(rows):
            if other != number:
                replica.absorb(found)
    assert [[one.count for one in replica.findings()] for replica in replicas] == [[6]] * 3
    assert first.findings() == second.findings() == third.findings()
    assert [replica.found_alone() for replica in replicas] == [[]] * 3


def test_a_new_replica_has_what_the_others_have_and_no_more():
    old, new = Detection(), Detection()
    for detection, numbers in ((old, range(4)), (new, range(2))):
        for number in numbers:
            for one in clobbered(str(number), 100.0 + number):
                detection.see(one)
    new.restore(old.rows(), old.waiting())
    assert new.findings() == old.findings()

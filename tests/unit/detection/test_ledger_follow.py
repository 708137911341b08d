"""What the leader has found is shown by the others as the leader shows it."""

import dataclasses

import msgspec
import pytest
from msgspec.structs import replace

from genguard.detection.detectors import Blame
from genguard.detection.evidence import ResourceKind
from genguard.detection.ledger import Ledger
from genguard.detection.suspects import Suspects
from genguard.detection.write import Called
from tests.unit.detection.builders import shown
from tests.unit.detection.test_ledger import SIGN, WRITE, of

BY_OTHERS = dataclasses.replace(SIGN, blame=Blame.OTHERS, requesters=())


def ledger_of(*uids: str) -> Ledger:
    """Two webhooks may have done it, of which one has an alibi elsewhere."""
    suspects = Suspects()
    ledger = Ledger(suspects)
    for number, uid in enumerate(uids):
        write = replace(
            WRITE, object=of(uid), time=float(number), called=Called(("aaa/h", "bbb/h"), ())
        )
        ledger.add("status-clobbered", BY_OTHERS, write)
    return ledger


def told(ledger: Ledger) -> bytes:
    return msgspec.json.encode(ledger.findings())


def test_another_ledger_shows_the_same_whatever_its_own_suspects_say():
    leader, follower = ledger_of("a", "b", "a"), Ledger(Suspects())
    follower.follow(shown(leader))
    assert told(follower) == told(leader)
    follower.follow([])
    assert follower.findings() == ()


def test_what_is_new_takes_the_place_of_what_was_and_what_is_gone_goes():
    leader, follower = ledger_of("a", "b"), Ledger(Suspects())
    follower.follow(shown(leader))
    (gone, *_), later = leader.shown(), ledger_of("b", "c", "b")
    follower.follow(shown(later), [gone])
    assert told(follower) == told(later)


def test_where_others_are_blamed_conditions_are_asked_by_every_replica():
    suspects = Suspects()
    follower = Ledger(suspects)
    follower.follow(shown(ledger_of("a")))
    (found,) = follower.findings()
    assert suspects.has_changed(ResourceKind(found.object.group, found.object.resource, ""))


@pytest.mark.parametrize("row", [b"", b"\xc1", msgspec.msgpack.encode({"id": "1"})])
def test_of_rows_that_are_wrong_nothing_is_taken(row):
    follower = Ledger(Suspects())
    follower.follow(shown(ledger_of("a")))
    before = told(follower)
    for gone in (None, list(follower.shown())):
        with pytest.raises((msgspec.MsgspecError, ValueError)):
            follower.follow([*shown(ledger_of("b")), ("c", row)], gone)
        assert told(follower) == before


def test_who_leads_then_counts_on_and_shows_what_it_finds_itself():
    leader, follower = ledger_of("a"), Ledger(Suspects())
    follower.follow(shown(leader))
    follower.lead()
    for ledger in (leader, follower):
        ledger.add("status-clobbered", BY_OTHERS, replace(WRITE, object=of("a"), time=9.0))
    assert [one.count for one in follower.findings()] == [2]
    assert told(follower) == told(leader)


def test_as_long_as_nothing_changes_a_finding_is_the_same():
    ledger = ledger_of("a", "b")
    before = ledger.shown()
    ledger.add("status-clobbered", BY_OTHERS, replace(WRITE, object=of("b"), time=9.0))
    after = ledger.shown()
    assert [after[name] is before[name] for name in before] == [True, False]

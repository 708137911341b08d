"""Findings outlive the process, with all that their next turn depends on."""

import msgspec
import pytest
from msgspec.structs import replace

from genguard.detection.detection import Detection
from genguard.detection.finding import Severity
from genguard.detection.finding_state import QUIET_SECONDS, WINDOW_SECONDS
from genguard.detection.ledger import Ledger
from genguard.detection.suspects import Suspects
from tests.unit.detection.builders import INTENT, MUTATE, feed, rows_of, update
from tests.unit.detection.test_ledger import SIGN, WRITE, of


def clobber(detection: Detection, now: float, base: int) -> None:
    """A webhook takes away what a controller sent."""
    sent, stored = {"status": {"observedGeneration": 1}}, {"status": {}}
    for phase, new in ((INTENT, sent), (MUTATE, stored)):
        asked = update(new, stored, str(base), subresource="status", user="system:controller")
        feed(detection, phase, asked, now)


def looping(times: int = 4) -> Detection:
    detection = Detection()
    for number in range(times):
        clobber(detection, 100.0 + number, 10 + number)
    return detection


def restarted(ledger: Ledger) -> Detection:
    fresh = Detection()
    fresh.ledger.restore(rows_of(ledger))
    return fresh


def test_a_finding_is_told_as_before():
    before = looping()
    assert before.findings()
    assert restarted(before.ledger).findings() == before.findings()


def test_a_loop_goes_on_where_it_was():
    before = looping()
    after = restarted(before.ledger)
    for number in range(4, 8):
        clobber(after, 100.0 + number, 10 + number)
    (one,), (same,) = before.findings(), after.findings()
    assert (same.id, same.first_seen) == (one.id, one.first_seen)
    assert same.count > one.count
    assert same.severity is Severity.WARNING


def test_what_was_quiet_meanwhile_is_resolved():
    after = restarted(looping().ledger)
    assert after.settle(103.0 + max(QUIET_SECONDS, WINDOW_SECONDS)) != ()
    assert {one.state for one in after.findings()} == {"resolved"}


@pytest.mark.parametrize("content", [b"", b"\xc1", msgspec.msgpack.encode({"id": "1"})])
def test_rows_of_another_kind_are_refused(content):
    with pytest.raises(msgspec.MsgspecError):
        Ledger(Suspects()).restore([("a", content)])


TAKEN = {
    "unknown": (2, 3, True),
    "untouched": (1, 3, True),
    "own": (4, 4, False),
    "same": (1, 1, False),
}
"""By object: count and last sign in the end, and whether these are another ledger's."""


def of_objects(**signs: tuple[float, ...]) -> Ledger:
    """A ledger in which each object has had signs at these times."""
    ledger = Ledger(Suspects())
    enter(ledger, **signs)
    return ledger


def enter(ledger: Ledger, **signs: tuple[float, ...]) -> None:
    for uid, times in signs.items():
        for time in times:
            ledger.add("spec-fight", SIGN, replace(WRITE, object=of(uid), time=time))


def taken_over() -> tuple[Ledger, set[str]]:
    """A ledger that was restored, has had signs of its own, and takes over from another one."""
    mine = Ledger(Suspects())
    mine.restore(rows_of(of_objects(untouched=(0,), own=(0,), same=(1,))))
    enter(mine, own=(4,))
    others = of_objects(unknown=(2, 3), untouched=(3,), own=(0, 1, 2, 3), same=(1,))
    return mine, mine.restore(rows_of(others), keeps_own=True)


@pytest.mark.parametrize("uid", TAKEN)
def test_what_an_earlier_leader_knew_is_taken_over_unless_it_has_gone_on_here(uid):
    ledger, ids = taken_over()
    count, last, is_others = TAKEN[uid]
    (found,) = [one for one in ledger.findings() if one.object.uid == uid]
    assert (found.count, found.last_seen) == (count, f"1970-01-01T00:00:0{last}Z")
    assert (found.id in ids) is is_others


def test_of_rows_that_cannot_be_read_nothing_is_taken_over():
    ledger, _ = taken_over()
    before = ledger.findings()
    rows = [*rows_of(of_objects(new=(1,))), ("a", b"\xc1")]
    with pytest.raises(msgspec.MsgspecError):
        ledger.restore(rows, keeps_own=True)
    assert ledger.findings() == before

"""From signs to findings, and what of them outlives the process."""

import dataclasses
from itertools import product

import msgspec
import pytest
from msgspec.structs import replace

from genguard.admission.matching import ResourceKind, read_configurations
from genguard.detection.detection import Detection
from genguard.detection.finding import Severity
from genguard.detection.finding_state import QUIET_SECONDS, WINDOW_SECONDS, FindingState
from genguard.detection.ledger import Ledger
from genguard.detection.mutators import Mutators
from genguard.detection.question import ChangedBy, Signal
from genguard.detection.write import Called, ObjectKey
from tests.cases_loader import table
from tests.unit.detection.builders import (
    INTENT,
    MUTATE,
    OUTCOME,
    feed,
    joined,
    rows_of,
    settled,
    spec,
    update,
)
from tests.unit.detection.test_mutators import hook

(WRITE,) = joined((OUTCOME, update(spec(replicas=2), spec(replicas=1))))
SIGN = Signal(ChangedBy.REQUESTER, ("/spec/replicas",), "it happened", (WRITE.requester,))
OF_OTHERS = dataclasses.replace(SIGN, changed_by=ChangedBy.OTHERS, requesters=())
PAIR = ("aaa/h.example.org", "bbb/h.example.org")


def of(uid: str) -> ObjectKey:
    return replace(WRITE.object, uid=uid)


def ledger_of(*times: float, sign: Signal = SIGN) -> Ledger:
    ledger = Ledger(Mutators())
    for time in times:
        ledger.add("spec-fight", sign, replace(WRITE, time=time))
    return ledger


def enter(ledger: Ledger, **signs: tuple[float, ...]) -> Ledger:
    """Each object has signs at these times."""
    for uid, times in signs.items():
        for time in times:
            ledger.add("spec-fight", SIGN, replace(WRITE, object=of(uid), time=time))
    return ledger


@table("findings/severity.yaml", "signs", "seconds", "minor", "severity")
def test_severity_takes_count_and_duration(case):
    sign = dataclasses.replace(SIGN, minor=case.get("minor", False))
    apart = case["seconds"] / (case["signs"] - 1)
    (finding,) = ledger_of(
        *(1_000 + apart * one for one in range(case["signs"])), sign=sign
    ).findings()
    assert finding.severity == case["severity"], case.because


@table("findings/quiet.yaml", "signs", "quiet")
def test_how_long_a_finding_has_to_be_quiet(case):
    """Told by the times of writes: whoever has looked in between, all replicas say the same."""
    times = [1_000 + one for one in case["signs"]]
    looked, unseen = Ledger(Mutators()), ledger_of(*times)
    for time in times:
        looked.add("spec-fight", SIGN, replace(WRITE, time=time))
        looked.resolve_quiet(time + QUIET_SECONDS)
    end = times[-1] + case["quiet"]
    assert not settled(unseen, end - 0.1), case.because
    (resolved,) = settled(unseen, end)
    assert resolved.state == "resolved", case.because
    assert not settled(unseen, end + 1)
    for ledger in (looked, unseen):
        ledger.add("spec-fight", SIGN, replace(WRITE, time=end + 1))
    assert rows_of(looked) == rows_of(unseen)


def test_the_states_are_those_of_the_table():
    events = ("a signal", "at rest, damage left", "at rest, none left", "damage gone")
    told = {}
    for before, event in product(("open", "quiet", "resolved"), events):
        state = FindingState("", "", WRITE.object, "", 0.0, 0.0, state=before)
        state.next(event)
        told.setdefault(before, []).append(state.state)
    assert told == {
        "open": ["open", "quiet", "resolved", "open"],
        "quiet": ["open", "quiet", "resolved", "resolved"],
        "resolved": ["open", "resolved", "resolved", "resolved"],
    }


@table("findings/actors.yaml", "blame", "actors")
def test_who_is_named_by_when_it_happened(case):
    ledger, sign = (
        Ledger(Mutators()),
        dataclasses.replace(SIGN, changed_by=ChangedBy(case["blame"])),
    )
    for _ in range(2):
        ledger.add("spec-fight", sign, replace(WRITE, called=Called(("aaa/h",), ())))
    (finding,) = ledger.findings()
    assert [f"{one.type} {one.confidence}" for one in finding.actors] == case["actors"], (
        case.because
    )
    assert {one.name for one in finding.actors} <= {"someone", "aaa/h"}


def test_a_scale_is_a_view_of_its_object_and_no_other_subresource_is():
    ledger = Ledger(Mutators())
    for subresource in ("", "scale", "status"):
        ledger.add("spec-fight", SIGN, replace(WRITE, subresource=subresource))
    counts = {one.subresource: one.count for one in ledger.findings()}
    assert counts == {"": 2, "status": 1}


def in_doubt(*found: tuple[str, ChangedBy, tuple[str, ...]], mutators: Mutators) -> Ledger:
    """Each a finding on an object of its own: the detector, the blame, and who was called."""
    ledger = Ledger(mutators)
    for number, (detector, changed_by, called) in enumerate(found):
        sign = dataclasses.replace(SIGN, changed_by=changed_by, requesters=())
        one = replace(WRITE, time=number, object=of(str(number)), called=Called(called, ()))
        ledger.add(detector, sign, one)
    return ledger


def two_webhooks() -> Mutators:
    return Mutators(read_configurations([hook("aaa"), hook("bbb")]))


def named(ledger: Ledger) -> list[list[tuple[str, str]]]:
    return [
        [(one.name.partition("/")[0], one.confidence.value) for one in finding.actors]
        for finding in ledger.findings()
    ]


EQUAL, BBB = [("aaa", "possible"), ("bbb", "possible")], [("bbb", "likely"), ("aaa", "possible")]


@pytest.mark.parametrize(
    ("other", "expected", "because"),
    [
        (("spec-fight", ChangedBy.OTHERS, PAIR[1:]), BBB, "it stood alone in another such finding"),
        (("status-clobbered", ChangedBy.OTHERS, PAIR[1:]), EQUAL, "in a finding of another kind"),
        (("spec-fight", ChangedBy.EITHER, PAIR[1:]), EQUAL, "where it may have been the requester"),
        (("spec-fight", ChangedBy.OTHERS, ()), EQUAL, "of nobody anything is known"),
    ],
)
def test_what_findings_of_one_kind_share_speaks_against_a_webhook(other, expected, because):
    mutators = two_webhooks()
    first, _ = named(in_doubt(("spec-fight", ChangedBy.OTHERS, PAIR), other, mutators=mutators))
    assert first == expected, because


def test_whom_to_suspect_is_told_anew_while_it_is_in_doubt():
    mutators = two_webhooks()
    ledger = in_doubt(("spec-fight", ChangedBy.OTHERS, PAIR), mutators=mutators)
    assert named(ledger) == [EQUAL]
    assert ledger.findings() is ledger.findings(), "as long as nothing speaks for either"
    here = ResourceKind("apps", "deployments", "")
    for where, name, times in ((here, PAIR[0], 2), (here._replace(resource="x"), PAIR[1], 8)):
        for _ in range(times):
            mutators.record_unchanged([name], where)
    assert named(ledger) == [BBB], "what was left alone at the very place counts most"
    (resolved,) = settled(ledger, QUIET_SECONDS)
    assert [one.name for one in resolved.actors] == [*reversed(PAIR)]


@pytest.mark.parametrize("changed_by", [ChangedBy.OTHERS, ChangedBy.EITHER])
def test_a_webhook_that_was_not_there_each_time_is_not_named_beside_one_that_was(changed_by):
    ledger, sign = Ledger(Mutators()), dataclasses.replace(OF_OTHERS, changed_by=changed_by)
    for names in (("aaa/h", "bbb/h"), ("bbb/h",)):
        ledger.add("spec-fight", sign, replace(WRITE, called=Called(names, ())))
    assert named(ledger)[0][0][0] == "bbb"


def looping(times: int = 4, detection: Detection | None = None, begin: int = 0) -> Detection:
    """A webhook takes away what a controller sends."""
    detection = detection or Detection()
    sent, stored = {"status": {"observedGeneration": 1}}, {"status": {}}
    for number in range(begin, begin + times):
        for phase, new in ((INTENT, sent), (MUTATE, stored)):
            asked = update(
                new, stored, str(10 + number), subresource="status", user="system:controller"
            )
            feed(detection, phase, asked, 100.0 + number)
    return detection


def test_a_loop_goes_on_after_a_restart_where_it_was():
    before, after = looping(), Detection()
    after.ledger.restore(rows_of(before.ledger))
    assert after.findings() == before.findings() != ()
    looping(4, after, begin=4)
    (one,), (same,) = before.findings(), after.findings()
    assert (same.id, same.first_seen) == (one.id, one.first_seen)
    assert same.count > one.count
    assert same.severity is Severity.WARNING
    assert settled(after, 107.0 + WINDOW_SECONDS)


@pytest.mark.parametrize("content", [b"", b"\xc1", msgspec.msgpack.encode({"id": "1"})])
def test_of_rows_that_cannot_be_read_nothing_is_taken_over(content):
    ledger = enter(Ledger(Mutators()), own=(0,))
    before, rows = ledger.findings(), rows_of(enter(Ledger(Mutators()), new=(1,)))
    with pytest.raises(msgspec.MsgspecError):
        ledger.restore([*rows, ("a", content)], keeps_own=True)
    assert ledger.findings() == before


def test_what_an_earlier_leader_knew_is_taken_over_unless_it_has_gone_on_here():
    mine = Ledger(Mutators())
    mine.restore(rows_of(enter(Ledger(Mutators()), untouched=(0,), own=(0,))))
    enter(mine, own=(4,))
    others = enter(Ledger(Mutators()), unknown=(2, 3), untouched=(3,), own=(0, 1, 2, 3))
    taken = mine.restore(rows_of(others), keeps_own=True)
    found = {one.object.uid: one for one in mine.findings()}
    assert {
        uid: (one.count, one.last_seen[-3:-1], one.id in taken) for uid, one in found.items()
    } == {"unknown": (2, "03", True), "untouched": (1, "03", True), "own": (4, "04", False)}

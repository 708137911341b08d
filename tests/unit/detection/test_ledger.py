"""From signs to findings."""

import dataclasses

import pytest
from msgspec.structs import replace

from tests.unit.detection.builders import OUTCOME, joined, spec, update
from tests.unit.detection.test_suspects import hook
from webhook.detection import ledger as ledger_module
from webhook.detection.detectors import Blame, Sign
from webhook.detection.entry import CRITICAL_COUNT, MOST_PATHS, QUIET_SECONDS, WINDOW_SECONDS
from webhook.detection.evidence import Place
from webhook.detection.finding import Severity
from webhook.detection.ledger import Ledger
from webhook.detection.suspects import Suspects, read_configurations
from webhook.detection.write import Called

(WRITE,) = joined((OUTCOME, update(spec(replicas=2), spec(replicas=1))))
SIGN = Sign(Blame.REQUESTER, ("/spec/replicas",), "it happened", (WRITE.requester,))


def ledger_of(*times: float, sign: Sign = SIGN) -> Ledger:
    ledger = Ledger(Suspects())
    for time in times:
        ledger.add("spec-fight", sign, replace(WRITE, time=time))
    return ledger


def severity(ledger: Ledger) -> Severity:
    (finding,) = ledger.findings()
    return finding.severity


def test_once_is_an_anomaly_and_the_third_a_loop():
    assert severity(ledger_of(0)) is Severity.INFO
    assert severity(ledger_of(0, 1)) is Severity.INFO
    assert severity(ledger_of(0, 1, 2)) is Severity.WARNING


def test_critical_takes_count_and_duration():
    assert severity(ledger_of(*range(CRITICAL_COUNT))) is Severity.WARNING
    assert severity(ledger_of(*range(0, 2 * CRITICAL_COUNT, 2))) is Severity.CRITICAL


def test_minor_signs_are_never_more_than_info():
    assert (
        severity(ledger_of(*range(50), sign=dataclasses.replace(SIGN, minor=True))) is Severity.INFO
    )


def test_signs_far_apart_are_not_the_same_loop():
    ledger = ledger_of(0, WINDOW_SECONDS + 1, 2 * WINDOW_SECONDS + 2)
    assert severity(ledger) is Severity.INFO


def test_a_finding_resolves_when_it_is_quiet_and_not_before():
    ledger = ledger_of(0, 1, 2)
    assert not list(ledger.settle(2 + QUIET_SECONDS - 1))
    (resolved,) = ledger.settle(2 + QUIET_SECONDS)
    assert resolved.state == "resolved"
    assert not list(ledger.settle(3 + QUIET_SECONDS))


def test_a_finding_that_comes_back_stays_open_for_longer():
    ledger = ledger_of(0, 1, 2)
    assert list(ledger.settle(2 + QUIET_SECONDS))
    ledger.add("spec-fight", SIGN, replace(WRITE, time=70))
    (finding,) = ledger.findings()
    assert finding.state == "open"
    assert not list(ledger.settle(70 + QUIET_SECONDS))
    assert list(ledger.settle(70 + 4 * QUIET_SECONDS))


def test_whom_the_server_may_have_listened_to_is_only_possible():
    (finding,) = ledger_of(0, sign=dataclasses.replace(SIGN, blame=Blame.SERVER)).findings()
    assert [actor.confidence.value for actor in finding.actors] == ["possible"]


def test_findings_are_made_anew_only_where_a_sign_was_added():
    ledger = ledger_of(0)
    other = replace(WRITE, object=WRITE.object._replace(uid="another"), time=1)
    ledger.add("spec-fight", SIGN, other)
    first, second = before = ledger.findings()
    assert ledger.findings() is before
    ledger.add("spec-fight", SIGN, replace(other, time=2))
    (kept, counted) = ledger.findings()
    assert kept is first
    assert (second.count, counted.count) == (1, 2)
    list(ledger.settle(QUIET_SECONDS))
    assert [one.state for one in ledger.findings()] == ["resolved", "open"]


def test_whom_to_suspect_is_told_anew_while_it_is_in_doubt():
    suspects = Suspects(read_configurations([hook("aaa", ("*/status",)), hook("bbb")]))
    ledger = Ledger(suspects)
    pair = ("aaa/h.example.org", "bbb/h.example.org")
    write = replace(WRITE, subresource="status", called=Called(pair, ()))
    sign = dataclasses.replace(SIGN, blame=Blame.OTHERS, requesters=())
    ledger.add("status-clobbered", sign, write)
    (before,) = told = ledger.findings()
    assert ledger.findings() is told, "as long as nothing speaks for either"
    for _ in range(3):
        suspects.acquit(pair[:1], Place("apps", "replicasets", "status"))
    (after,) = ledger.findings()
    assert [one.confidence.value for one in before.actors] == ["possible", "possible"]
    assert [one.confidence.value for one in after.actors] == ["likely", "possible"]


def test_whether_it_came_back_is_told_by_the_times_of_writes_and_not_by_who_looked():
    settled, unseen = ledger_of(0, 1, 2), ledger_of(0, 1, 2)
    assert list(settled.settle(2 + QUIET_SECONDS))
    for ledger in (settled, unseen):
        ledger.add("spec-fight", SIGN, replace(WRITE, time=3 + QUIET_SECONDS))
    assert list(settled.marks()) == list(unseen.marks())
    assert settled.findings() == unseen.findings()
    early = 3 + 2 * QUIET_SECONDS
    assert [list(ledger.settle(early)) for ledger in (settled, unseen)] == [[], []]


def test_a_clock_that_is_behind_turns_no_finding_back():
    (finding,) = ledger_of(10, 9, 11, 10).findings()
    assert (finding.first_seen, finding.last_seen) == (
        "1970-01-01T00:00:09Z",
        "1970-01-01T00:00:11Z",
    )


def test_of_many_paths_the_first_are_told():
    one, other = (
        dataclasses.replace(SIGN, paths=tuple(f"/{name}/{n}" for n in range(15))) for name in "ab"
    )
    ledger = ledger_of(0, sign=one)
    ledger.add("spec-fight", other, replace(WRITE, time=1))
    (finding,) = ledger.findings()
    assert finding.paths == (*one.paths, *other.paths[: MOST_PATHS - 15])


def test_of_too_many_findings_the_longest_unchanged_goes(monkeypatch):
    monkeypatch.setattr(ledger_module, "MOST_FINDINGS", 2)
    ledger = Ledger(Suspects())
    for time, uid in enumerate(("a", "b", "a", "c")):
        one = replace(WRITE, object=WRITE.object._replace(uid=uid), time=float(time))
        ledger.add("spec-fight", SIGN, one)
    assert [one.object.uid for one in ledger.findings()] == ["a", "c"]
    other = Ledger(Suspects())
    other.add("spec-fight", SIGN, replace(WRITE, object=WRITE.object._replace(uid="d"), time=9.0))
    ledger.absorb(other.rows())
    assert [one.object.uid for one in ledger.findings()] == ["c", "d"]


def test_a_finding_that_goes_while_they_are_told_is_left_out(monkeypatch):
    monkeypatch.setattr(ledger_module, "MOST_FINDINGS", 3)
    ledger = Ledger(Suspects())

    def found(uid: str) -> None:
        ledger.add("spec-fight", SIGN, replace(WRITE, object=WRITE.object._replace(uid=uid)))

    for uid in "abc":
        found(uid)
    marks = ledger.marks()
    first, _ = next(marks)
    found("d")
    found("e")  # now a and b are gone
    assert ledger.export(first) is None
    assert [name.split("\0")[3] for name, _ in marks] == ["c"]
    rows = ledger.rows()
    next(rows)
    for uid in "fgh":
        found(uid)
    assert list(rows) == []


def test_nothing_of_another_kind_is_written_into_a_row():
    with pytest.raises(NotImplementedError):
        ledger_module._plain(object())


def test_webhooks_that_two_have_counted_are_counted_together():
    write = replace(WRITE, called=Called(("aaa/h", "bbb/h"), ()))
    sign = dataclasses.replace(SIGN, blame=Blame.OTHERS, requesters=())
    one, other = Ledger(Suspects()), Ledger(Suspects())
    one.add("status-clobbered", sign, write)
    other.add("status-clobbered", sign, replace(write, called=Called(("bbb/h",), ()), time=200.0))
    one.absorb(other.rows())
    (finding,) = one.findings()
    assert [(actor.name, actor.confidence.value) for actor in finding.actors] == [
        ("bbb/h", "certain")
    ]


def test_of_two_findings_with_the_same_doubt_both_are_told_alike():
    suspects = Suspects(read_configurations([hook("aaa"), hook("bbb")]))
    ledger = Ledger(suspects)
    pair = ("aaa/h.example.org", "bbb/h.example.org")
    sign = dataclasses.replace(SIGN, blame=Blame.OTHERS, requesters=())
    for uid in "ab":
        one = replace(WRITE, object=WRITE.object._replace(uid=uid), called=Called(pair, ()))
        ledger.add("status-clobbered", sign, one)
    first, second = ledger.findings()
    assert first.actors == second.actors != ()

"""From signs to findings."""

import dataclasses

import pytest
from msgspec.structs import replace

from genguard.detection import ledger as ledger_module
from genguard.detection.detectors import Blame, Signal
from genguard.detection.evidence import ResourceKind
from genguard.detection.finding import Severity
from genguard.detection.finding_state import (
    CRITICAL_COUNT,
    CRITICAL_SECONDS,
    QUIET_SECONDS,
    WINDOW_SECONDS,
)
from genguard.detection.ledger import Ledger
from genguard.detection.suspects import Suspects, read_configurations
from genguard.detection.write import Called, ObjectKey
from tests.unit.detection.builders import OUTCOME, joined, rows_of, spec, update
from tests.unit.detection.test_suspects import hook

(WRITE,) = joined((OUTCOME, update(spec(replicas=2), spec(replicas=1))))
CALLED = replace(WRITE, called=Called(("aaa/h",), ()))
SIGN = Signal(Blame.REQUESTER, ("/spec/replicas",), "it happened", (WRITE.requester,))


def of(uid: str) -> ObjectKey:
    return replace(WRITE.object, uid=uid)


def ledger_of(*times: float, sign: Signal = SIGN) -> Ledger:
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


@pytest.mark.parametrize(
    ("count", "seconds", "expected"),
    [
        (CRITICAL_COUNT, CRITICAL_SECONDS - 1, Severity.WARNING),
        (CRITICAL_COUNT, CRITICAL_SECONDS, Severity.CRITICAL),
        (CRITICAL_COUNT - 1, CRITICAL_SECONDS, Severity.WARNING),
    ],
)
def test_critical_takes_count_and_duration(count, seconds, expected):
    times = (1_000 + seconds * number / (count - 1) for number in range(count))
    assert severity(ledger_of(*times)) is expected


def test_minor_signs_are_never_more_than_info():
    assert (
        severity(ledger_of(*range(50), sign=dataclasses.replace(SIGN, minor=True))) is Severity.INFO
    )


@pytest.mark.parametrize(
    ("apart", "expected"),
    [(WINDOW_SECONDS, Severity.WARNING), (WINDOW_SECONDS + 1, Severity.INFO)],
)
def test_signs_far_apart_are_not_the_same_loop(apart, expected):
    assert severity(ledger_of(*(1_000 + turn * apart for turn in range(3)))) is expected


@pytest.mark.parametrize(
    ("times", "seconds", "because"),
    [
        ((0,), 60, "the shortest"),
        ((0, 10), 60, "a fast loop"),
        ((0, 20), 80, "four turns of a slow one"),
        ((0, 40, 60), 120, "a turn every 30 s"),
        ((0, 200), 600, "never longer than signs of one loop may be apart"),
        ((0, 59, 60), 120, "it did not come back, for it was never quiet"),
        ((0, 0, 60), 240, "it came back: twice as long as a turn every 30 s takes"),
    ],
)
def test_how_long_a_finding_has_to_be_quiet(times, seconds, because):
    ledger = ledger_of(*(1_000 + time for time in times))
    end = 1_000 + times[-1] + seconds
    assert not list(ledger.settle(end - 0.1)), because
    assert list(ledger.settle(end)), because


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


@pytest.mark.parametrize(
    ("blame", "expected", "because"),
    [
        (Blame.REQUESTER, [("user", "certain")], "it was there before any webhook was called"),
        (Blame.OTHERS, [("webhook", "certain"), ("user", "certain")], "as the detector says"),
        (Blame.EITHER, [("user", "possible"), ("webhook", "possible")], "nobody saw the intent"),
        (Blame.SERVER, [("user", "possible")], "whom the server may have listened to"),
    ],
)
def test_who_is_named_by_when_it_happened(blame, expected, because):
    ledger, sign = Ledger(Suspects()), dataclasses.replace(SIGN, blame=blame)
    for _ in range(2):
        ledger.add("spec-fight", sign, CALLED)
    (finding,) = ledger.findings()
    known = {"user": ("someone", ""), "webhook": ("aaa/h", "")}
    assert [
        (one.type, one.name, one.field_manager, one.confidence.value) for one in finding.actors
    ] == [(kind, *known[kind], confidence) for kind, confidence in expected], because


@pytest.mark.parametrize("blame", [Blame.OTHERS, Blame.EITHER])
def test_a_webhook_that_was_not_there_each_time_is_not_named_beside_one_that_was(blame):
    ledger, sign = Ledger(Suspects()), dataclasses.replace(SIGN, blame=blame, requesters=())
    for names in (("aaa/h", "bbb/h"), ("bbb/h",)):
        ledger.add("spec-fight", sign, replace(WRITE, called=Called(names, ())))
    (finding,) = ledger.findings()
    assert [one.name for one in finding.actors] == ["bbb/h"]


def test_a_scale_is_a_view_of_its_object_and_no_other_subresource_is():
    ledger = Ledger(Suspects())
    for subresource in ("", "scale", "status"):
        ledger.add("spec-fight", SIGN, replace(WRITE, subresource=subresource))
    counts = {one.subresource: one.count for one in ledger.findings()}
    assert counts == {"": 2, "status": 1}


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
        suspects.record_unchanged(pair[:1], ResourceKind("apps", "replicasets", "status"))
    (after,) = ledger.findings()
    assert [one.confidence.value for one in before.actors] == ["possible", "possible"]
    assert [one.confidence.value for one in after.actors] == ["likely", "possible"]


def test_whether_it_came_back_is_told_by_the_times_of_writes_and_not_by_who_looked():
    settled, unseen = ledger_of(0, 1, 2), ledger_of(0, 1, 2)
    assert list(settled.settle(2 + QUIET_SECONDS))
    for ledger in (settled, unseen):
        ledger.add("spec-fight", SIGN, replace(WRITE, time=3 + QUIET_SECONDS))
    assert rows_of(settled) == rows_of(unseen)
    assert settled.findings() == unseen.findings()
    early = 3 + 2 * QUIET_SECONDS
    assert [list(ledger.settle(early)) for ledger in (settled, unseen)] == [[], []]


def test_of_too_many_findings_the_longest_unchanged_goes(monkeypatch):
    monkeypatch.setattr(ledger_module, "MOST_FINDINGS", 2)
    ledger = Ledger(Suspects())
    for time, uid in enumerate(("a", "b", "a", "c")):
        one = replace(WRITE, object=replace(WRITE.object, uid=uid), time=float(time))
        ledger.add("spec-fight", SIGN, one)
    assert [one.object.uid for one in ledger.findings()] == ["a", "c"]


def test_of_findings_that_are_restored_the_longest_unchanged_goes_first(monkeypatch):
    monkeypatch.setattr(ledger_module, "MOST_FINDINGS", 2)

    def found(ledger: Ledger, uid: str, time: float) -> None:
        ledger.add("spec-fight", SIGN, replace(WRITE, object=of(uid), time=time))

    before, after = Ledger(Suspects()), Ledger(Suspects())
    found(before, "b", 0)
    found(before, "a", 1)
    after.restore(reversed(rows_of(before)))
    found(after, "c", 2)
    assert [one.object.uid for one in after.findings()] == ["a", "c"]


def test_the_worst_and_latest_are_saved_first_and_a_change_is_told(monkeypatch):
    ledger = ledger_of(0, 1, 2)
    (before,) = ledger.snapshot()
    ledger.add("spec-fight", SIGN, replace(WRITE, time=3))
    (after,) = ledger.snapshot()
    assert (before.mark.news, before.name) == (after.mark.news, after.name)
    assert before.mark.signs != after.mark.signs
    for uid, times in {"old": (0, 1, 2), "new": (7, 8, 9), "info": (99,)}.items():
        for time in times:
            ledger.add("spec-fight", SIGN, replace(WRITE, object=of(uid), time=time))
    assert [one.name.split("\0")[3] for one in ledger.snapshot()][::3] == ["new", "info"]


HERE = ResourceKind("apps", "deployments", "")
PAIR = ("aaa/h.example.org", "bbb/h.example.org")


class Counting(Suspects):
    """Remembers of whom it was asked who it was."""

    def __init__(self) -> None:
        super().__init__(read_configurations([hook("aaa"), hook("bbb")]))
        self.asked = []

    def accused(self, names, shared, where, young=()):
        self.asked.append(names)
        return super().accused(names, shared, where, young)


def in_doubt(
    *found: tuple[str, Blame, tuple[str, ...]], suspects: Suspects | None = None
) -> Ledger:
    """Each a finding on an object of its own: the detector, the blame, and who was called."""
    ledger = Ledger(suspects or Counting())
    for number, (detector, blame, called) in enumerate(found):
        sign = dataclasses.replace(SIGN, blame=blame, requesters=())
        one = replace(WRITE, time=number, object=of(str(number)), called=Called(called, ()))
        ledger.add(detector, sign, one)
    return ledger


def named(ledger: Ledger) -> list[list[tuple[str, str]]]:
    return [
        [(one.name.partition("/")[0], one.confidence.value) for one in finding.actors]
        for finding in ledger.findings()
    ]


EQUAL, BBB = [("aaa", "possible"), ("bbb", "possible")], [("bbb", "likely"), ("aaa", "possible")]


@pytest.mark.parametrize(
    ("other", "expected", "because"),
    [
        (("spec-fight", Blame.OTHERS, PAIR[1:]), BBB, "it stood alone in another such finding"),
        (("status-clobbered", Blame.OTHERS, PAIR[1:]), EQUAL, "in a finding of another kind"),
        (("spec-fight", Blame.EITHER, PAIR[1:]), EQUAL, "where it may have been the requester"),
        (("spec-fight", Blame.OTHERS, ()), EQUAL, "of nobody anything is known"),
    ],
)
def test_what_findings_of_one_kind_share_speaks_against_a_webhook(other, expected, because):
    first, _ = named(in_doubt(("spec-fight", Blame.OTHERS, PAIR), other))
    assert first == expected, because


def test_what_was_left_alone_at_the_very_place_counts_most():
    suspects = Counting()
    for where, name, times in ((HERE, PAIR[0], 2), (HERE._replace(resource="x"), PAIR[1], 8)):
        for _ in range(times):
            suspects.record_unchanged([name], where)
    assert named(in_doubt(("spec-fight", Blame.OTHERS, PAIR), suspects=suspects)) == [BBB]


def test_a_finding_of_which_nobody_knows_whose_it_is_resolves_like_any_other():
    (resolved,) = in_doubt(("spec-fight", Blame.OTHERS, PAIR)).settle(QUIET_SECONDS)
    assert [one.name for one in resolved.actors] == list(PAIR)

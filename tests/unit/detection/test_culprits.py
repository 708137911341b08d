"""Findings of one culprit become one finding about many objects."""

import msgspec

from genguard.detection.causes import LEAST, fold
from genguard.detection.finding import NO_OBJECT, Actor, Confidence, Severity
from tests.cases_loader import table
from tests.unit.alerts.findings import finding
from tests.unit.detection.test_fix import actor

WEBHOOK = Actor("webhook", "mmm/h.example.org", "", Confidence.CERTAIN)


def many(count, **more):
    made = finding(**{"severity": Severity.INFO, "actors": (WEBHOOK,), "count": 1, **more})
    return tuple(
        msgspec.structs.replace(
            made,
            id=f"{more.get('detector', 'd')}-{number}",
            object=msgspec.structs.replace(made.object, name=f"pod-{number}", uid=f"uid-{number}"),
        )
        for number in range(count)
    )


def whole_of(findings):
    (found,) = (one for one in fold(findings) if one.objects is not None)
    return found


def test_many_findings_of_one_culprit_are_parts_of_one():
    findings = many(3_000, detector="observed-generation-cleared")
    whole, *parts = fold(findings)
    assert whole.object is NO_OBJECT
    assert (whole.objects.count, whole.count, whole.severity) == (3_000, 3_000, Severity.CRITICAL)
    assert whole.objects.kinds == {findings[0].object.resource: 3_000}
    assert whole.objects.examples == tuple(one.object for one in findings[:5])
    assert whole.actors == (WEBHOOK,)
    assert len(parts) == 3_000
    assert {(one.part_of, one.severity) for one in parts} == {(whole.id, Severity.INFO)}
    assert "object" not in msgspec.to_builtins(whole)


@table("findings/culprits.yaml", "each", "count", "severity")
def test_what_has_no_culprit_in_common_is_not_folded_and_what_has_is_as_severe_as_all(case):
    each = {key: tuple(x) if isinstance(x, list) else x for key, x in case["each"].items()}
    each["severity"] = Severity(each.get("severity", "info"))
    if "actors" in each:
        each["actors"] = tuple(map(actor, each["actors"]))
    findings = many(case["count"], **each)
    if case.get("severity"):
        assert whole_of(findings).severity == case["severity"], case.because
    else:
        assert fold(findings) == findings, case.because


def test_findings_that_were_over_before_are_no_part_of_what_goes_on_now():
    over = many(30, state="resolved", last_seen="2025-01-01T00:00:00Z")
    later = "2025-01-01T01:00:00Z"
    now = [
        msgspec.structs.replace(one, id=f"now-{one.id}", state="open", first_seen=later)
        for one in many(LEAST, last_seen=later)
    ]
    assert fold((*over, *now[1:])) == (*over, *now[1:])
    assert whole_of((*over, *now)).objects.count == LEAST


def test_it_is_open_as_long_as_one_of_them_is():
    resolved = many(30, state="resolved")
    last = msgspec.structs.replace(resolved[-1], state="open")
    assert whole_of((*resolved[:-1], last)).state == "open"
    assert whole_of(resolved).state == "resolved"


def test_the_message_says_when_the_culprit_was_created_or_changed():
    note = {"time": "", "actor": WEBHOOK.name, "note": "changed 7 s before the first signal"}
    first, *others = many(30, evidence=(note,))
    early = msgspec.structs.replace(first, first_seen="2025-01-01T00:00:00.000Z")
    later = {**note, "note": "changed 9 s before the first signal"}
    others = [msgspec.structs.replace(one, evidence=(later,)) for one in others]
    whole = whole_of((early, *others))
    assert whole.message.startswith("mmm/h.example.org, changed 7 s before the first signal, does")
    assert whole.evidence == (note,)


def test_items_of_lists_are_one_field():
    several = [many(20, paths=(f"/status/conditions/{index}/status",)) for index in (0, 1)]
    findings = tuple(
        msgspec.structs.replace(one, id=f"{index}-{one.id}")
        for index, some in enumerate(several)
        for one in some
    )
    assert whole_of(findings).objects.count == 40

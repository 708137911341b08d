"""What stays wrong in a stored object, and is it still."""

import json
from typing import Any

import msgspec
from msgspec.structs import replace

from genguard.admission.review import Phase
from genguard.detection.correlate import Correlator
from genguard.detection.damage import Damage, LostValue, is_broken, lost_values
from genguard.detection.detection import Detection
from genguard.detection.finding import Finding, Severity
from genguard.detection.finding_state import QUIET_SECONDS, SECONDS_UNSEEN
from genguard.objects.observed import Observed, read_observed
from tests.cases_loader import Case, table
from tests.reviews import make_review
from tests.unit.detection.builders import (
    INTENT,
    MUTATE,
    OUTCOME,
    Examining,
    feed,
    joined,
    observation,
    settled,
    update,
)


def damage_of(case: Case) -> Damage:
    names = {"lost": (), "writer": "", "fields": (), "behind": None, "ahead": False}
    return msgspec.convert([case["damage"].get(name, names[name]) for name in names], Damage)


def stored(status: Any, generation: int = 4) -> dict[str, Any]:
    return {"metadata": {"generation": generation, "resourceVersion": "77"}, "status": status}


def observed(status: dict[str, Any]) -> Observed:
    found = read_observed(msgspec.Raw(json.dumps(status).encode()))
    assert found is not None
    return found


@table("damage/stored.yaml", "damage", "status", "broken")
def test_damage_is_there_while_the_stored_value_is_the_one_that_was_left(case):
    assert is_broken(damage_of(case), stored(case["status"])) is case["broken"], case.because


def test_values_are_lost_where_they_are_cleared_or_where_only_an_older_one_was_put_back():
    conditions = [{"type": "A", "observedGeneration": 2}]
    sent = observed({"observedGeneration": 4, "conditions": conditions})
    assert lost_values(sent, sent) == ()
    assert lost_values(sent, observed({"conditions": [{"type": "A"}]})) == (
        LostValue(None, 4),
        LostValue("A", 2),
    )
    assert lost_values(sent, observed({"observedGeneration": 3})) == (LostValue(None, 4, 3),)
    assert lost_values(sent, observed({"observedGeneration": 5})) == ()


def test_a_condition_without_a_type_is_left_alone():
    sent = observed({"conditions": [{"observedGeneration": 2}]})
    assert lost_values(sent, observed({"conditions": [{}]})) == ()


def write_status(detection: Detection, now: float, sent: Any, left: Any, made: Any) -> None:
    """One status write: as sent, as other webhooks left it, and as it is to be stored.

    A phase whose status is None is not seen.
    """
    for phase, status in ((INTENT, sent), (MUTATE, left), (OUTCOME, made)):
        if status is not None:
            asked = update({"status": status}, {"status": {}}, str(int(now)), subresource="status")
            feed(detection, phase, asked, now)


def clobbered(times: int = 3) -> Detection:
    """A webhook has cleared what a controller sent, and nobody has written since."""
    detection = Detection()
    for number in range(times):
        write_status(detection, 100.0 + number, {"observedGeneration": 1}, {}, {})
    return detection


def only(detection: Detection) -> Finding:
    (finding,) = detection.findings()
    return finding


def test_a_finding_stays_quiet_while_its_value_is_lost():
    detection = clobbered()
    assert only(detection).state == "open"
    for later in (0.0, 1.0):
        assert settled(detection, 102.0 + QUIET_SECONDS + later) == []
        assert only(detection).state == "quiet"


def test_a_finding_shows_the_command_that_puts_its_value_back_as_long_as_it_is_lost():
    detection = clobbered()
    assert "--subresource=status" in only(detection).repair
    sent = {"observedGeneration": 1}
    write_status(detection, 110.0, sent, sent, sent)
    assert only(detection).repair == ""


def test_a_finding_resolves_when_a_write_brings_the_value_back():
    detection = clobbered()
    detection.resolve_quiet(102.0 + QUIET_SECONDS)
    sent = {"observedGeneration": 1}
    write_status(detection, 300.0, sent, sent, sent)
    assert only(detection).state == "resolved"


def test_a_value_that_comes_back_early_still_waits_for_quiet():
    detection = clobbered()
    sent = {"observedGeneration": 1}
    write_status(detection, 110.0, sent, sent, sent)
    assert only(detection).state == "open"
    (resolved,) = settled(detection, 102.0 + QUIET_SECONDS)
    assert resolved.state == "resolved"


def test_a_value_that_was_repaired_on_its_way_is_no_damage():
    detection = Detection()
    sent = {"observedGeneration": 1}
    for number in range(3):
        write_status(detection, 100.0 + number, sent, {}, sent)
    assert not any(one.damage for one in detection.ledger.damaged())
    (resolved,) = settled(detection, 102.0 + QUIET_SECONDS)
    assert resolved.count == 3


def test_a_look_at_the_object_resolves_a_quiet_finding_or_makes_it_a_warning():
    detection = clobbered(times=1)
    assert only(detection).severity is Severity.INFO
    (damaged,) = detection.ledger.damaged()
    detection.resolve_quiet(100.0 + QUIET_SECONDS)
    detection.ledger.look(damaged.object, lambda _: True, 200.0)
    assert (only(detection).severity, only(detection).state) == (Severity.WARNING, "quiet")
    detection.ledger.look(damaged.object, lambda _: False, 230.0)
    assert only(detection).state == "resolved"


def test_damage_that_nobody_looked_at_for_a_day_is_not_told_of_any_more():
    detection = clobbered()
    assert settled(detection, 102.0 + SECONDS_UNSEEN - 1) == []
    (resolved,) = settled(detection, 102.0 + SECONDS_UNSEEN)
    assert resolved.state == "resolved"


def test_a_finding_whose_object_is_deleted_has_no_damage():
    detection = clobbered()
    detection.resolve_quiet(102.0 + QUIET_SECONDS)
    asked = make_review("DELETE", "deployments", None, {"metadata": {"generation": 1}})
    dry = make_review("DELETE", "deployments", None, {"metadata": {"generation": 1}}, dry_run=True)
    feed(detection, OUTCOME, dry, 300.0)
    assert only(detection).state == "quiet"
    feed(detection, OUTCOME, asked, 300.0)
    assert only(detection).state == "resolved"


def test_what_genguard_itself_puts_back_is_no_write_to_examine():
    detection = Examining(own_user="genguard")
    sent = {"status": {"observedGeneration": 1}}
    asked = update(sent, {"status": {}}, subresource="status", user="genguard")
    for phase in (INTENT, MUTATE, OUTCOME):
        feed(detection, phase, asked, 100.0)
    detection.finish(200.0)
    assert detection.writes == []


@table("damage/in_part.yaml", "seen", "missing", "finds")
def test_a_write_that_was_seen_in_part_is_examined_by_what_is_known(case):
    detection, whole = Examining(), {"replicas": 2}
    write_status(detection, 10.0, whole, whole, whole)
    write_status(detection, 20.0, *(case["seen"].get(phase) for phase in Phase))
    detection.finish(50.0)
    found = [one for one in detection.findings() if one.detector == "observed-generation-cleared"]
    assert bool(found) is case["finds"], case.because
    if found:
        assert found[0].evidence[-1]["missing"] == case["missing"]
    missing = [phase for phase, count in detection.completeness.missing.items() if count]
    assert sorted(missing) == case["missing"], case.because


def test_phases_that_are_not_registered_are_not_missing():
    one = update({"status": {"replicas": 1}}, {"status": {}}, subresource="status")
    (write,) = joined((OUTCOME, one))
    assert write.missing == ()


def test_a_write_without_an_outcome_is_not_remembered():
    detection = Examining()
    whole = {"replicas": 2}
    write_status(detection, 10.0, whole, whole, whole)
    write_status(detection, 20.0, {"observedGeneration": 1}, {}, None)
    detection.finish(50.0)
    (first, second) = detection.writes
    assert second.missing == ("outcome",)
    assert detection.history.of(first.object).writes[-1].time == 10.0


@table("damage/clobbered.yaml", "sent", "left", "damaged")
def test_a_clobbered_condition_or_removed_field_is_damage(case):
    detection, left = Detection(), case["left"]
    write_status(detection, 100.0, case["sent"], left, left)
    assert bool(detection.ledger.damaged()) is case["damaged"], case.because
    for damaged in detection.ledger.damaged():
        assert is_broken(damaged.possible_damage, stored(left))
        assert not is_broken(damaged.possible_damage, stored(case["sent"]))


def test_a_clobbered_field_that_was_repaired_on_its_way_is_no_damage():
    detection = Detection()
    write_status(detection, 100.0, {"phase": "Up"}, {}, {"phase": "Up"})
    assert only(detection).detector == "status-clobbered"
    assert not detection.ledger.damaged()


def test_a_removed_field_is_damage_until_a_write_sets_it():
    detection = Detection()
    write_status(detection, 100.0, {"phase": "Up"}, {}, {})
    write_status(detection, 101.0, {"replicas": 1}, {"replicas": 1}, {"replicas": 1})
    assert detection.ledger.damaged()
    write_status(detection, 102.0, {"phase": "Up"}, {"phase": "Up"}, {"phase": "Up"})
    assert not detection.ledger.damaged()


def test_a_condition_that_a_webhook_sets_back_to_what_was_stored_is_damage():
    detection = Detection()
    was, sent = ({"conditions": [{"type": "Ready", "status": one}]} for one in ("False", "True"))
    for phase, status in ((INTENT, sent), (MUTATE, was), (OUTCOME, was)):
        asked = update({"status": status}, {"status": was}, subresource="status")
        feed(detection, phase, asked, 100.0)
    assert detection.ledger.damaged()


def test_without_an_outcome_only_what_other_webhooks_did_is_told():
    detection = Examining()
    whole = {"replicas": 2}
    write_status(detection, 10.0, whole, whole, whole)
    write_status(
        detection, 20.0, {"observedGeneration": 9, "phase": "Up"}, {"observedGeneration": 9}, None
    )
    detection.finish(50.0)
    assert [one.detector for one in detection.findings()] == ["status-clobbered"]


def test_a_mutate_call_of_a_replica_that_awaits_an_outcome_is_not_the_last_one():
    waiting = replace(observation(MUTATE, update({"status": {"a": 1}}, {"status": {}})), state=None)
    correlator = Correlator()
    assert [*correlator.see(waiting)] == [*correlator.finish()] == []

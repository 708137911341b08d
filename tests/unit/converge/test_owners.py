"""Who owns a field of a manifest, and wants another value."""

import pytest

from genguard.blame.report import BlamedField, Writer, blame_live, next_in_turn
from genguard.converge.contest import Level
from genguard.converge.owners import asked_twice, joined, owned_by_others, scaled_by
from genguard.detection.finding import FoundObject
from genguard.objects.served import Served
from tests.cases_loader import table

DEPLOYMENTS = Served(
    group="apps",
    version="v1",
    resource="deployments",
    singular="deployment",
    kind="Deployment",
    short_names=(),
    namespaced=True,
    has_status=True,
    watchable=True,
)
MANIFEST = {"metadata": {"name": "web"}, "spec": {"replicas": 3}}


def stored(replicas, manager="kube-controller-manager", operation="Update"):
    fields = {"f:spec": {"f:replicas": {}}}
    entry = {"manager": manager, "operation": operation, "fieldsV1": fields}
    return {"metadata": {"name": "web", "managedFields": [entry]}, "spec": {"replicas": replicas}}


def owned(live, manager):
    """What managedFields alone say."""
    fields = blame_live(FoundObject("", "", "", "", "web", ""), live, None).fields
    return list(owned_by_others(MANIFEST, live, fields, manager))


def writer(name, manager="", *, time="", exact=True, through="update"):
    source = "audit" if exact else "managedFields"
    return Writer(name, manager, through, time, exact=exact, source=source)


@table("converge/owners.yaml", "replicas", "owner", "levels")
def test_an_owner_who_wants_another_value_will_write_it_back(case):
    live = stored(case["replicas"], *(case["owner"] or ()))
    if case["owner"] is None:
        del live["metadata"]
    found = owned(live, "us")
    assert [one.level for one in found] == case["levels"], case.because
    assert all(one.field == "spec.replicas" for one in found)


@table("converge/applied_by_another.yaml", "manager", "owns", "level")
def test_where_nobody_said_who_applies_a_known_tool_may_be_the_one(case):
    fields = {"f:data": {f"f:{name}": {} for name in case["owns"]}}
    rest = {"f:data": {f"f:{name}": {} for name in {"a", "b", "c"} - {*case["owns"]}}}
    live = {
        "metadata": {
            "managedFields": [
                {"manager": case["manager"], "operation": "Apply", "fieldsV1": fields},
                {"manager": "rest", "operation": "Update", "fieldsV1": rest},
            ]
        },
        "data": {"a": "1", "b": "2", "c": "3"},
    }
    manifest = {"data": {"a": "9", "b": "2", "c": "3"}}
    known = blame_live(FoundObject("", "", "", "", "web", ""), live, None).fields
    (found,) = owned_by_others(manifest, live, known, None)
    assert found.level == case["level"], case.because


@table("converge/whole.yaml", "asked", "stored", "fields", "fights")
def test_an_empty_list_or_object_is_a_value_where_it_is_owned_as_a_whole(case):
    owner = {"manager": "other", "operation": "Apply", "fieldsV1": case["fields"]}
    live = {**case["stored"], "metadata": {"managedFields": [owner]}}
    known = blame_live(FoundObject("", "", "", "", "web", ""), live, None).fields
    found = owned_by_others(case["asked"], live, known, None)
    assert [one.field for one in found] == case["fights"], case.because


def at(user, manager, second):
    return writer(user, manager, time=f"2026-01-01T00:00:0{second}Z")


ARGO, SCALER = at("argo", "argocd", 1), at("scaler", "scaler", 2)
BOB = at("bob", "kubectl-edit", 4)


@table("converge/turns.yaml", "turns", "manager", "names")
def test_who_changed_a_field_back_twice_will_do_it_again(case):
    in_turn = ()
    for second, one in enumerate(case["turns"]):
        in_turn = next_in_turn(in_turn, at(*one.split("/"), second))
    row = BlamedField("spec.replicas", "", in_turn[-1], in_turn=in_turn)
    found = list(owned_by_others(MANIFEST, MANIFEST, [row], case.get("manager")))
    assert [one.parties[0].name for one in found] == case["names"], case.because
    assert all(one.level is Level.FIGHT for one in found)


def test_the_user_who_applies_does_not_fight_with_himself():
    row = BlamedField("spec.replicas", "", ARGO, in_turn=(SCALER, ARGO, SCALER, ARGO))
    assert list(owned_by_others(MANIFEST, MANIFEST, [row], None, "scaler")) == []
    (found,) = owned_by_others(MANIFEST, MANIFEST, [row], None)
    assert found.note == "scaler and others change it in turn, last at 2026-01-01T00:00:01Z"


def test_who_took_a_field_away_wants_another_value():
    row = BlamedField("spec.replicas", "", SCALER, removed=True)
    (found,) = owned_by_others(MANIFEST, {"metadata": {"name": "web"}}, [row], None)
    assert (found.parties[0].name, found.parties[0].manager) == ("scaler", "scaler")


def owner(manager):
    return writer("", manager, time="5", exact=False, through="Update")


@table("converge/joined.yaml", "live", "logged", "user")
def test_a_log_adds_the_user_to_the_owner(case):
    live = case["live"] and owner(case["live"])
    logged = {"user": SCALER, "owner": owner("scaler"), None: None}[case["logged"]]
    rows = [BlamedField("spec.replicas", "", one) for one in (live, logged)]
    (found,) = joined(rows[:1], rows[1:])
    assert found.writer.user == case["user"], case.because


def test_of_two_reports_the_newer_turns_count():
    old, new = (BOB, SCALER, BOB, SCALER), (SCALER, at("argo", "argocd", 9))
    for one, other in ((old, new), (new, old)):
        rows = [BlamedField("spec.replicas", "", None, in_turn=turns) for turns in (one, other)]
        (found,) = joined(rows[:1], rows[1:])
        assert found.in_turn == new


@pytest.mark.parametrize(("removed", "count"), [(True, 1), (False, 0)])
def test_a_field_that_only_the_log_knows_counts_where_it_was_removed(removed, count):
    row = BlamedField("spec.paused", "", SCALER, removed=removed)
    assert len(list(joined([], [row]))) == count
    assert list(joined([row], [])) == [row]


@table("converge/scaled.yaml", "scaler", "manifest", "fields")
def test_an_autoscaler_writes_fields_of_its_target(case):
    found = list(scaled_by(case.get("manifest", MANIFEST), DEPLOYMENTS, [case["scaler"]]))
    assert [one.field for one in found] == case["fields"], case.because
    assert all(one.level is Level.FIGHT for one in found)


def test_two_manifests_of_one_object_may_not_want_different_values():
    other = {"metadata": {"name": "web"}, "spec": {"replicas": 5, "paused": True}}
    assert [one.field for one in asked_twice(MANIFEST, [other])] == ["spec.replicas"]
    assert list(asked_twice(MANIFEST, [MANIFEST, {"spec": {"paused": True}}])) == []

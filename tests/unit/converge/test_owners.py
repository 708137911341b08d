"""Who owns a field of a manifest, and wants another value."""

import pytest

from genguard.blame.report import BlamedField, BlamedObject, Writer, blame_live, next_turn
from genguard.converge.contest import Level
from genguard.converge.owners import (
    asked_twice,
    latest,
    owned_by_others,
    resized_by,
    scaled_by,
)
from genguard.objects.served import Served

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
    fields = blame_live(BlamedObject("", "", "", "", "web", ""), live, None).fields
    return list(owned_by_others(MANIFEST, live, fields, manager))


def writer(name, manager="", *, time="", exact=True, through="update"):
    source = "audit" if exact else "managedFields"
    return Writer(name, manager, through, time, exact=exact, source=source)


def blamed(*turns: Writer, **more):
    """The row of spec.replicas, written by these users in turn."""
    given = {"writer": turns[-1], "turns": turns, **more}
    return BlamedField("spec.replicas", "/spec/replicas", **given)


@pytest.mark.parametrize(
    ("live", "levels", "because"),
    [
        (stored(5), [Level.FIGHT], "a controller wrote another value"),
        (stored(3), [], "the same value is nobody's loss"),
        (stored(5, "us"), [], "it is our own"),
        (stored(5, "other-tool", "Apply"), [Level.FIGHT], "another applier"),
        (stored(5, "kubectl-edit"), [Level.NOTE], "a person does not insist"),
        (stored(5, "helm"), [Level.NOTE], "a tool applies a new manifest"),
        ({"spec": {"replicas": 5}}, [], "nobody owns it"),
    ],
)
def test_an_owner_who_wants_another_value_will_write_it_back(live, levels, because):
    found = owned(live, "us")
    assert [one.level for one in found] == levels, because
    assert all(one.field == "spec.replicas" for one in found)


def test_where_nobody_said_who_applies_an_applier_may_be_the_one():
    for manager in ("argocd-controller", "some-tool"):
        (found,) = owned(stored(5, manager, "Apply"), None)
        assert found.level is Level.NOTE
    (found,) = owned(stored(5), None)
    assert found.level is Level.FIGHT


ARGO, SCALER = writer("argo", "argocd"), writer("scaler", "scaler", time="2026-01-01T00:00:09Z")
BOB = writer("bob", "kubectl")


@pytest.mark.parametrize(
    ("row", "replicas", "names", "because"),
    [
        (blamed(ARGO, SCALER, ARGO), 3, ["scaler"], "it wrote what the manifest had set"),
        (blamed(ARGO, SCALER), 5, ["scaler"], "it wrote last, and another value"),
        (blamed(SCALER, ARGO), 3, [], "it wrote once, and did not come back"),
        (blamed(ARGO, BOB, ARGO), 3, [], "a person and a tool that applies do not insist"),
        (blamed(SCALER), 3, [], "nobody else writes it"),
        (blamed(ARGO, SCALER, removed=True), None, ["scaler"], "it took the field away"),
    ],
)
def test_who_wrote_a_field_back_before_will_do_it_again(row, replicas, names, because):
    live = {"metadata": {"name": "web"}, "spec": {"replicas": replicas} if replicas else {}}
    found = list(owned_by_others(MANIFEST, live, [row], None))
    assert [one.parties[0].name for one in found] == names, because
    assert all(one.level is Level.FIGHT for one in found)
    if len(row.turns) > 2 and found:
        assert found[0].note == "writes it back, at 2026-01-01T00:00:09Z"


def owner(manager, time):
    return writer("", manager, time=time, exact=False, through="Update")


@pytest.mark.parametrize(
    ("live", "logged", "user", "because"),
    [
        (owner("scaler", "5"), SCALER, "scaler", "the log names the user of the owner"),
        (owner("other", "2026-02"), SCALER, "", "the log ended before the last write"),
        (owner("other", "2025-02"), SCALER, "scaler", "the log is newer than the owner"),
        (None, SCALER, "scaler", "nobody owns it"),
        (owner("scaler", "5"), None, "", "the log does not know the field"),
        (owner("scaler", "5"), owner("scaler", "5"), "", "it has managedFields alone"),
    ],
)
def test_of_owners_and_a_log_the_last_writer_counts(live, logged, user, because):
    rows = [BlamedField("spec.replicas", "", one) for one in (live, logged)]
    (found,) = latest(rows[:1], rows[1:])
    assert found.writer.user == user, because
    assert found.writer.through == ("Update" if live and found.writer is not SCALER else "update")


def test_a_field_of_one_report_alone_stays():
    (here,) = latest([blamed(ARGO)], [])
    (there,) = latest([], [blamed(ARGO)])
    assert here == there


def test_the_latest_turns_are_kept_and_one_writer_has_one():
    turns = ()
    for name in ("a", "a", "b", "c", "d", "e", "e"):
        turns = next_turn(turns, writer(name))
    assert [one.user for one in turns] == ["b", "c", "d", "e"]


@pytest.mark.parametrize(
    ("target", "manifest", "count"),
    [
        ({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}, MANIFEST, 1),
        ({"apiVersion": "apps/v1", "kind": "Deployment", "name": "other"}, MANIFEST, 0),
        ({"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web"}, MANIFEST, 0),
        ({}, MANIFEST, 0),
        ({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}, {"spec": {}}, 0),
    ],
)
def test_an_autoscaler_writes_the_replicas_of_its_target(target, manifest, count):
    scaler = {"metadata": {"name": "web"}, "spec": {"scaleTargetRef": target}}
    found = list(scaled_by(manifest, DEPLOYMENTS, [scaler]))
    assert len(found) == count
    assert all(one.parties[0].name == "HorizontalPodAutoscaler web" for one in found)


@pytest.mark.parametrize(
    ("mode", "count", "because"),
    [
        (None, 1, "without a mode it acts"),
        ("Initial", 1, "it acts on new pods"),
        ("Off", 0, "it only recommends"),
    ],
)
def test_a_vertical_autoscaler_sets_the_resources_of_pods_and_so_is_a_note(mode, count, because):
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    scaler = {"metadata": {"name": "web"}, "spec": {"targetRef": target}}
    if mode:
        scaler["spec"]["updatePolicy"] = {"updateMode": mode}
    containers = [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}]
    manifest = {**MANIFEST, "spec": {"template": {"spec": {"containers": containers}}}}
    found = list(resized_by(manifest, DEPLOYMENTS, [scaler]))
    assert len(found) == count, because
    for one in found:
        assert one.field == "spec.template.spec.containers[c].resources.requests.cpu"
        assert one.level is Level.NOTE


def test_two_manifests_of_one_object_may_not_want_different_values():
    other = {"metadata": {"name": "web"}, "spec": {"replicas": 5, "paused": True}}
    assert [one.field for one in asked_twice(MANIFEST, [other])] == ["spec.replicas"]
    assert list(asked_twice(MANIFEST, [MANIFEST, {"spec": {"paused": True}}])) == []

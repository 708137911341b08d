"""Who owns a field of a manifest, and wants another value."""

import pytest

from genguard.converge.contest import Level
from genguard.converge.owners import asked_twice, owned_by_others, scaled_by
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
    found = list(owned_by_others(MANIFEST, live, "us"))
    assert [one.level for one in found] == levels, because
    assert all(one.field == "spec.replicas" for one in found)


def test_where_nobody_said_who_applies_an_applier_may_be_the_one():
    for manager in ("argocd-controller", "some-tool"):
        (found,) = owned_by_others(MANIFEST, stored(5, manager, "Apply"), None)
        assert found.level is Level.NOTE
    (found,) = owned_by_others(MANIFEST, stored(5), None)
    assert found.level is Level.FIGHT


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


def test_two_manifests_of_one_object_may_not_want_different_values():
    other = {"metadata": {"name": "web"}, "spec": {"replicas": 5, "paused": True}}
    assert [one.field for one in asked_twice(MANIFEST, [other])] == ["spec.replicas"]
    assert list(asked_twice(MANIFEST, [MANIFEST, {"spec": {"paused": True}}])) == []

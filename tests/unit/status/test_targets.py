"""What arguments and files name, and which of it a cluster is asked for."""

import pytest

from genguard.objects.served import Served, UnknownTargetError
from genguard.status.targets import (
    NAMESPACE_KINDS,
    RequestedTarget,
    WatchTarget,
    parse_targets,
    resolve_targets,
    target_of_manifest,
)
from genguard.status.trees import is_custom, owned_by
from tests.cases_loader import table


def served(group, resource, kind, *short: str, namespaced=True, watchable=True):
    return Served(
        group=group, version="v1", resource=resource, singular=kind.lower(), kind=kind,
        short_names=short, namespaced=namespaced, has_status=True, watchable=watchable,
    )  # fmt: skip


PODS = served("", "pods", "Pod", "po")
NODES = served("", "nodes", "Node", namespaced=False)
DEPLOYMENTS = served("apps", "deployments", "Deployment", "deploy")
BINDINGS = served("", "bindings", "Binding", watchable=False)
KINDS = [PODS, NODES, DEPLOYMENTS, BINDINGS]


@table("status/words.yaml", "words", "meant")
def test_arguments_are_those_of_kubectl_and_anything_else_is_refused(case):
    if case["meant"] is None:
        with pytest.raises(UnknownTargetError, match="is not KIND/NAME"):
            parse_targets(case["words"])
    else:
        meant = [RequestedTarget(*one) for one in case["meant"]]
        assert parse_targets(case["words"]) == meant, case.because


def test_without_arguments_the_kinds_of_a_namespace_are_meant():
    assert parse_targets([]) == [RequestedTarget(kind, "") for kind in NAMESPACE_KINDS]


def test_a_manifest_names_its_object():
    metadata = {"name": "web", "namespace": "shop"}
    manifest = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata}
    assert target_of_manifest(manifest) == RequestedTarget("Deployment.v1.apps", "web", "shop")
    core = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}}
    assert resolve_targets([target_of_manifest(core)], KINDS, "default") == [
        WatchTarget(PODS, "default", "x")
    ]
    assert resolve_targets([target_of_manifest(manifest)], KINDS, "default") == [
        WatchTarget(DEPLOYMENTS, "shop", "web")
    ]


@pytest.mark.parametrize(
    "manifest",
    [{}, {"apiVersion": "v1", "kind": "Pod", "metadata": {"generateName": "x-"}},
     {"apiVersion": 1, "kind": "Pod", "metadata": {"name": "x"}}, {"kind": "Pod"}],
)  # fmt: skip
def test_a_manifest_without_a_name_names_nothing(manifest):
    assert target_of_manifest(manifest) is None


def test_no_more_is_asked_of_the_server_than_is_wanted():
    (one,) = resolve_targets([RequestedTarget("po", "x")], KINDS, "shop")
    assert (one.list_parameters, str(one)) == (
        {"fieldSelector": "metadata.name=x"},
        "pods/x in namespace shop",
    )
    (some,) = resolve_targets([RequestedTarget("po", "")], KINDS, "", "app=web")
    assert (some.list_parameters, str(some)) == ({"labelSelector": "app=web"}, "pods")
    (node,) = resolve_targets([RequestedTarget("node", "")], KINDS, "shop")
    assert node == WatchTarget(NODES, "")


@pytest.mark.parametrize("kind", ["gadget", "bindings"])
def test_what_is_not_served_or_cannot_be_watched_is_refused(kind):
    with pytest.raises(UnknownTargetError):
        resolve_targets([RequestedTarget(kind, "")], KINDS, "shop")


def test_what_a_kind_owns_all_the_way_down():
    assert owned_by(("apps", "deployments")) == {("apps", "replicasets"), ("", "pods")}
    assert owned_by(("batch", "cronjobs")) == {("batch", "jobs"), ("", "pods")}
    assert owned_by(("", "services")) == set()


def test_nobody_knows_what_custom_resources_own():
    assert is_custom(("example.org", "widgets"))
    assert not is_custom(("apps", "deployments"))
    assert not is_custom(("storage.k8s.io", "volumeattachments"))

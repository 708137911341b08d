"""What arguments and files name, and which of it a cluster is asked for."""

import pytest

from webhook.objects.served import Served, UnknownTargetError
from webhook.status.asked import EVERYTHING, Asked, asked_by, parse_asked
from webhook.status.owned import is_custom, owned_by
from webhook.status.wanted import Wanted, wanted


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


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["deploy/web"], [Asked("deploy", "web")]),
        (["deploy/web", "po/x"], [Asked("deploy", "web"), Asked("po", "x")]),
        (["deploy", "web", "api"], [Asked("deploy", "web"), Asked("deploy", "api")]),
        (["deploy"], [Asked("deploy", "")]),
        (["deploy,po"], [Asked("deploy", ""), Asked("po", "")]),
        ([], [Asked(kind, "") for kind in EVERYTHING]),
    ],
)
def test_arguments_are_those_of_kubectl(words, expected):
    assert parse_asked(words) == expected


@pytest.mark.parametrize("words", [["deploy/web", "api"], ["deploy/"], ["/web"]])
def test_both_ways_at_once_and_half_names_are_refused(words):
    with pytest.raises(UnknownTargetError, match="is not KIND/NAME"):
        parse_asked(words)


def test_a_manifest_names_its_object():
    metadata = {"name": "web", "namespace": "shop"}
    manifest = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata}
    assert asked_by(manifest) == Asked("Deployment.v1.apps", "web", "shop")
    core = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}}
    assert wanted([asked_by(core)], KINDS, "default") == [Wanted(PODS, "default", "x")]
    assert wanted([asked_by(manifest)], KINDS, "default") == [Wanted(DEPLOYMENTS, "shop", "web")]


@pytest.mark.parametrize(
    "manifest",
    [{}, {"apiVersion": "v1", "kind": "Pod", "metadata": {"generateName": "x-"}},
     {"apiVersion": 1, "kind": "Pod", "metadata": {"name": "x"}}, {"kind": "Pod"}],
)  # fmt: skip
def test_a_manifest_without_a_name_names_nothing(manifest):
    assert asked_by(manifest) is None


def test_no_more_is_asked_of_the_server_than_is_wanted():
    (one,) = wanted([Asked("po", "x")], KINDS, "shop")
    assert (one.chosen, str(one)) == (
        {"fieldSelector": "metadata.name=x"},
        "pods/x in namespace shop",
    )
    (some,) = wanted([Asked("po", "")], KINDS, "", "app=web")
    assert (some.chosen, str(some)) == ({"labelSelector": "app=web"}, "pods")
    (node,) = wanted([Asked("node", "")], KINDS, "shop")
    assert node == Wanted(NODES, "")


@pytest.mark.parametrize("kind", ["gadget", "bindings"])
def test_what_is_not_served_or_cannot_be_watched_is_refused(kind):
    with pytest.raises(UnknownTargetError):
        wanted([Asked(kind, "")], KINDS, "shop")


@pytest.mark.parametrize(
    ("resource", "expected"),
    [
        (("apps", "deployments"), {("apps", "replicasets"), ("", "pods")}),
        (("batch", "cronjobs"), {("batch", "jobs"), ("", "pods")}),
        (("apps", "statefulsets"), {("", "pods")}),
        (("", "pods"), set()),
        (("", "services"), set()),
    ],
)
def test_what_a_kind_owns_all_the_way_down(resource, expected):
    assert owned_by(resource) == expected


def test_nobody_knows_what_custom_resources_own():
    assert is_custom(("example.org", "widgets"))
    assert not is_custom(("apps", "deployments"))
    assert not is_custom(("storage.k8s.io", "volumeattachments"))

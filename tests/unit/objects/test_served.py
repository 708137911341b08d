"""KIND/NAME as kubectl reads it, and where the API server has it."""

import pytest

from genguard.objects.served import UnknownTargetError, find, read_resources, split_target
from genguard.trace.plan import Traced
from tests.cases_loader import Case, table


def resource(name, kind, *short: str, namespaced=True):
    singular = kind.lower() if "/" not in name else ""
    return {
        "name": name, "kind": kind, "singularName": singular, "shortNames": list(short),
        "namespaced": namespaced,
    }  # fmt: skip


SERVED = [
    *read_resources("v1", {"resources": [
        resource("pods", "Pod", "po"), resource("pods/status", "Pod"),
        resource("events", "Event", "ev"), resource("nodes", "Node", "no", namespaced=False),
    ]}),
    *read_resources("apps/v1", {"resources": [
        resource("deployments", "Deployment", "deploy"),
        resource("deployments/status", "Deployment"),
        resource("controllerrevisions", "ControllerRevision"),
    ]}),
    *read_resources("events.k8s.io/v1", {"resources": [resource("events", "Event", "ev")]}),
    *read_resources("example.org/v1", {"resources": [resource("deploy", "Deploy")]}),
    *read_resources("none.org/v1", {"resources": None}),
]  # fmt: skip


@table("objects/kinds.yaml", "text", "found")
def test_a_kind_is_found_by_each_of_its_names_and_an_unknown_one_is_refused(case: Case) -> None:
    if case.get("found"):
        assert str(find(case["text"], SERVED)) == case["found"], case.because
    else:
        with pytest.raises(UnknownTargetError, match="there is no kind"):
            find(case["text"], SERVED)


@pytest.mark.parametrize("text", ["web", "deploy/", "/web", "deploy/web/status", ""])
def test_what_is_not_kind_and_name_is_refused(text):
    with pytest.raises(UnknownTargetError, match="is not KIND/NAME"):
        split_target(text)


def test_status_and_scope_come_from_discovery():
    assert find("pods", SERVED).has_status
    assert not find("controllerrevisions", SERVED).has_status
    assert not find("nodes", SERVED).namespaced


def test_what_can_be_followed_is_listed_and_watched():
    verbs = {
        "pods": ["get", "list", "watch"],
        "bindings": ["create"],
        "componentstatuses": ["list"],
    }
    listed = [resource(name, "K") | {"verbs": allowed} for name, allowed in verbs.items()]
    found = read_resources("v1", {"resources": listed})
    assert [one.resource for one in found if one.watchable] == ["pods"]


def test_a_resource_is_one_in_whatever_version():
    assert find("deployments.v1.apps", SERVED).of == ("apps", "deployments")


def test_where_a_collection_is():
    assert find("deploy.apps", SERVED).path("shop") == "/apis/apps/v1/namespaces/shop/deployments"
    assert find("pods", SERVED).path("") == "/api/v1/pods"


def test_where_an_object_is():
    web = Traced(find("deploy.apps", SERVED), "ns", "web")
    assert web.path("status") == "/apis/apps/v1/namespaces/ns/deployments/web/status"
    assert Traced(find("no", SERVED), "", "system:a?b").path() == "/api/v1/nodes/system:a%3Fb"

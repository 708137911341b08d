"""What no review shows: changes that the API server counts and that leave no trace on the wire.

A review is written from Go values, so what JSON cannot hold of them is lost before any webhook
sees it. These are the known cases; each proves that object and oldObject are equal in the review
and that the API server counts all the same. genguard notices at /outcome, where generation has
moved although nothing else has.
"""

import copy
from collections.abc import Iterator
from typing import Any

import pytest

from genguard.generation import predict
from tests.controlplane.client import Client, wait_until
from tests.controlplane.plane import ControlPlane
from tests.controlplane.webhook_listener import WebhookListener
from tests.differential.samples import definitions


@pytest.fixture
def reviews(apiserver: ControlPlane, namespace) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    name = namespace(apiserver)
    with (
        WebhookListener(apiserver.authority) as listener,
        listener.registered(apiserver, name, ["*/*"]),
    ):
        yield name, listener.reviews


def _put_twice(client: Client, path: str, created: dict[str, Any], body: dict[str, Any]) -> int:
    """Create an object, PUT `body` over it; the generation after."""
    metadata = client.post(path, created).body["metadata"]
    body = body | {"metadata": {key: metadata[key] for key in ("name", "resourceVersion")}}
    return client.put(f"{path}/{metadata['name']}", body).body["metadata"]["generation"]


def _last_update(seen: list[dict[str, Any]]) -> dict[str, Any]:
    return [one["request"] for one in seen if one["request"]["operation"] == "UPDATE"][-1]


def test_an_empty_list_in_a_network_policy_counts_and_no_review_shows_it(
    apiserver: ControlPlane, reviews
):
    name, seen = reviews
    path = f"/apis/networking.k8s.io/v1/namespaces/{name}/networkpolicies"
    spec = {"podSelector": {}, "policyTypes": ["Ingress"]}
    created = {"metadata": {"name": "policy"}, "spec": spec}
    generation = _put_twice(
        apiserver.client, path, created, created | {"spec": {**spec, "ingress": []}}
    )
    assert generation == 2
    request = _last_update(seen)
    assert request["object"]["spec"] == request["oldObject"]["spec"]
    stored = {"metadata": {"generation": 1}, "spec": spec}
    told = {"metadata": {}, "spec": {**spec, "ingress": []}}
    assert predict("UPDATE", "networkpolicies.networking.k8s.io", told, stored).generation == 2


def test_one_point_nought_in_a_custom_resource_counts_and_no_review_shows_it(
    apiserver: ControlPlane, reviews
):
    name, seen = reviews
    path = f"/apis/example.org/v1/namespaces/{name}/ratios"
    definitions_path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    apiserver.client.post(definitions_path, _definition())
    wait_until(lambda: apiserver.client.get(path).status == 200, what="ratios served")
    created = _ratio(1)
    assert _put_twice(apiserver.client, path, created, _ratio(1.0)) == 2
    request = _last_update(seen)
    assert repr(request["object"]["spec"]) == repr(request["oldObject"]["spec"])
    stored = {**created, "metadata": {"generation": 1}}
    assert predict("UPDATE", "ratios.example.org", _ratio(1.0), stored).generation == 2
    apiserver.client.delete(f"{definitions_path}/ratios.example.org")


def _definition() -> dict[str, Any]:
    """A definition of this test alone: others may be going away when it begins."""
    found = copy.deepcopy(definitions()["items"][1])
    found["metadata"]["name"] = "ratios.example.org"
    found["spec"]["names"] = {
        "plural": "ratios",
        "singular": "ratio",
        "kind": "Ratio",
        "listKind": "RatioList",
    }
    return found


def _ratio(ratio: float) -> dict[str, Any]:
    return {
        "apiVersion": "example.org/v1",
        "kind": "Ratio",
        "metadata": {"name": "ratio"},
        "spec": {"ratio": ratio},
    }


def test_key_order_inside_opaque_parameters_counts_and_is_seen(apiserver: ControlPlane, reviews):
    del reviews
    path = "/apis/resource.k8s.io/v1/deviceclasses"

    def device_class(parameters: dict[str, int]) -> dict[str, Any]:
        opaque = {"driver": "example.org", "parameters": parameters}
        return {"metadata": {"name": "ordered"}, "spec": {"config": [{"opaque": opaque}]}}

    one, other = device_class({"a": 1, "b": 2}), device_class({"b": 2, "a": 1})
    assert _put_twice(apiserver.client, path, one, other) == 2
    stored = {**one, "metadata": {"generation": 1}}
    assert predict("UPDATE", "deviceclasses.resource.k8s.io", other, stored).generation == 2
    apiserver.client.delete(f"{path}/ordered")

"""What `genguard lint` and `explain` say of custom resources is what a real API server does."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from click.testing import CliRunner

from tests.controlplane.client import wait_until
from tests.controlplane.fixtures import NamespaceFactory
from tests.controlplane.plane import ControlPlane
from tests.unit.lint.samples import CONDITION, definition
from webhook.cli import main

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
WITHOUT = {"properties": {"type": {"type": "string"}, "status": {"type": "string"}}}
CASES: dict[str, Any] = {
    "sounds": {},
    "wholes": {"version": {"subresources": None}},
    "dropped": {"conditions": {"type": "array", "items": {**CONDITION, **WITHOUT}}},
    "refused": {"observed": {"type": "string"}},
    "opens": {"status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
    "blinds": {"status": {"type": "object", "properties": {"phase": {"type": "string"}}}},
}
FOUND = {
    "sounds": set[str](),
    "wholes": {"status-no-subresource"},
    "dropped": {"conditions-not-map", "conditions-refuse-observed"},
    "refused": {"conditions-refuse-observed"},
    "opens": {"status-unknown-fields"},
    "blinds": {"no-conditions", "no-observed-generation"},
}
CONDITIONS = [{"type": "Ready", "status": "True", "observedGeneration": 1}]


class Widgets:
    """The objects of one definition."""

    def __init__(self, plane: ControlPlane, namespace: str, plural: str) -> None:
        self.client = plane.client
        self.path = f"/apis/example.org/v1/namespaces/{namespace}/{plural}"
        kind = plural.removesuffix("s").capitalize()
        body = {"apiVersion": "example.org/v1", "kind": kind, "metadata": {"name": "one"}}
        self.client.post(self.path, {**body, "spec": {"size": 1}})

    def generation(self) -> int:
        found: int = self.client.get(f"{self.path}/one").body["metadata"]["generation"]
        return found

    def moves(self, change: dict[str, Any], subresource: str = "") -> bool:
        """Whether GenerationChangedPredicate would pass the event of this write."""
        before = self.generation()
        answer = self.client.patch(f"{self.path}/one{subresource}", change)
        return bool(answer.body["metadata"]["generation"] != before)


@pytest.fixture(scope="module")
def defined(apiserver: ControlPlane) -> Iterator[None]:
    """Each definition, served."""
    for plural, case in CASES.items():
        apiserver.client.post(DEFINITIONS, definition(case, plural))
    for plural in CASES:
        path = f"/apis/example.org/v1/namespaces/default/{plural}"
        wait_until(lambda path=path: apiserver.client.get(path).status == 200, what=path)
    yield
    for plural in CASES:
        apiserver.client.delete(f"{DEFINITIONS}/{plural}.example.org", check=False)


def run(*arguments: str) -> list[dict[str, Any]]:
    result = CliRunner().invoke(main, [*arguments])
    assert result.exit_code in (0, 1), result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


@pytest.mark.usefixtures("defined")
def test_definitions_of_a_cluster_are_checked(apiserver: ControlPlane) -> None:
    arguments = ("lint", "-o", "json", f"--kubeconfig={apiserver.kubeconfig}")
    found = run(*arguments)
    assert {*found[-1]} == {"type", "error", "warning", "info"}
    for plural, checks in FOUND.items():
        name = f"{plural}.example.org"
        assert {one["id"] for one in found if one.get("definition") == name} == checks, plural


@pytest.mark.usefixtures("defined")
def test_a_status_without_subresource_moves_generation_and_one_with_it_does_not(
    apiserver: ControlPlane, namespace: NamespaceFactory
) -> None:
    name = namespace(apiserver)
    status = {"status": {"observedGeneration": 1}}
    assert Widgets(apiserver, name, "wholes").moves(status)
    assert not Widgets(apiserver, name, "sounds").moves(status, "/status")


@pytest.mark.usefixtures("defined")
def test_an_observed_generation_of_conditions_is_kept_dropped_or_refused(
    apiserver: ControlPlane, namespace: NamespaceFactory
) -> None:
    name = namespace(apiserver)
    kept = {}
    for plural in ("sounds", "dropped", "refused"):
        path = f"{Widgets(apiserver, name, plural).path}/one/status"
        body = {"status": {"conditions": CONDITIONS}}
        answer = apiserver.client.patch(path, body, check=False)
        conditions = answer.body.get("status", {})
        kept[plural] = (answer.status, conditions["conditions"] if answer.status == 200 else None)
    assert kept["sounds"] == (200, CONDITIONS)
    assert kept["dropped"] == (200, [{"type": "Ready", "status": "True"}])
    assert kept["refused"] == (422, None)


@pytest.mark.parametrize("plural", ["sounds", "wholes"])
@pytest.mark.usefixtures("defined")
def test_explain_names_the_writes_that_the_predicate_misses(
    apiserver: ControlPlane, namespace: NamespaceFactory, plural: str
) -> None:
    arguments = ("explain", f"{plural}.example.org", "-o", "json")
    (found,) = run(*arguments, f"--kubeconfig={apiserver.kubeconfig}")
    said = found["generationPredicate"]
    widgets = Widgets(apiserver, namespace(apiserver), plural)
    is_subresource = plural == "sounds"
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": "a"}
    writes = {
        "metadata.labels": widgets.moves({"metadata": {"labels": {"a": "b"}}}),
        "metadata.annotations": widgets.moves({"metadata": {"annotations": {"a": "b"}}}),
        "metadata.ownerReferences": widgets.moves({"metadata": {"ownerReferences": [owner]}}),
        "metadata.finalizers": widgets.moves({"metadata": {"finalizers": ["example.org/a"]}}),
        "status": widgets.moves(
            {"status": {"observedGeneration": 1}}, "/status" if is_subresource else ""
        ),
        "spec": widgets.moves({"spec": {"size": 2}}),
    }
    before = widgets.generation()
    apiserver.client.delete(f"{widgets.path}/one")
    writes["metadata.deletionTimestamp"] = widgets.generation() != before
    apiserver.client.patch(f"{widgets.path}/one", {"metadata": {"finalizers": None}})
    assert {field for field, moved in writes.items() if not moved} == set(said["misses"])
    assert said["safety"] == ("safe" if is_subresource else "noisy")

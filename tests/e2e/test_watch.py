"""Fights that no webhook sees, as reported, on a real API server; `watch` and `serve` find them."""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.beside import Beside
from tests.controlplane.client import Client, wait_until
from tests.controlplane.fixtures import NamespaceFactory, unique
from tests.controlplane.plane import ControlPlane
from tests.e2e.account import account
from tests.e2e.custom import served
from tests.e2e.genguard import Genguard
from tests.e2e.statuses import Shop
from tests.e2e.verbs import run

API = "/apis/admissionregistration.k8s.io/v1"
_FOUND_SECONDS = 60.0
Json = dict[str, Any]


def webhook(name: str, **more: Any) -> Json:
    """One that is called for nothing that is there."""
    rule = {"apiGroups": ["nowhere.example.org"], "apiVersions": ["*"], "resources": ["*"]}
    return {
        "name": f"{name}.example.org",
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "clientConfig": {"url": "https://127.0.0.1:1/", "caBundle": "YQ=="},
        "rules": [{**rule, "operations": ["CREATE"]}],
        "failurePolicy": "Ignore",
    } | more


def two_bundles(turn: int) -> Json:
    """https://github.com/cert-manager/cert-manager/issues/2899: cainjector and a GitOps tool."""
    url = "https://127.0.0.1:1/"
    return webhook("cert", clientConfig={"url": url, "caBundle": ("YQ==", "Yg==")[turn % 2]})


def two_selectors(turn: int) -> Json:
    """https://github.com/NVIDIA/KAI-Scheduler/issues/1292: an operator, and AKS adds to it."""
    added = [{"key": "control-plane", "operator": "DoesNotExist"}]
    return webhook("kai", namespaceSelector={"matchExpressions": added} if turn % 2 else {})


def two_policies(turn: int) -> Json:
    """https://github.com/istio-ecosystem/sail-operator/issues/1148: the operator and istiod."""
    return webhook("istio", failurePolicy=("Ignore", "Fail")[turn % 2])


def rules_in_two_orders(turn: int) -> Json:
    """https://github.com/kyverno/kyverno/issues/16919: rewritten for ever, by two controllers."""
    resources = ["pods", "services", "secrets"]
    rule = webhook("kyverno")["rules"][0]
    return webhook("kyverno", rules=[{**rule, "resources": resources[:: 1 if turn % 2 else -1]}])


FIGHTS: tuple[tuple[str, Callable[[int], Json], tuple[str, str]], ...] = (
    ("mutatingwebhookconfigurations", two_bundles, ("cainjector", "helm")),
    ("mutatingwebhookconfigurations", two_selectors, ("kai-operator", "admissionsenforcer")),
    ("validatingwebhookconfigurations", two_policies, ("sail-operator", "pilot-discovery")),
    ("validatingwebhookconfigurations", rules_in_two_orders, ("kyverno", "kyverno-policies")),
)


class Fight(Beside):
    """Two managers overwrite each other's webhook, once a second."""

    def __init__(
        self, client: Client, resource: str, made: Callable[[int], Json], managers: tuple[str, str]
    ) -> None:
        super().__init__()
        self._client, self._made, self._managers = client, made, managers
        self.name = f"fight-{made.__name__.replace('_', '-')}"
        self._collection = f"{API}/{resource}"
        self.path = f"{self._collection}/{self.name}"

    def _run(self) -> None:
        body = {"metadata": {"name": self.name}, "webhooks": [self._made(0)]}
        self._client.post(self._collection, body)
        turn = 0
        while not self._over.wait(0.5):
            turn += 1
            patch = {"webhooks": [self._made(turn)]}
            self._client.patch(self.path, patch, params={"fieldManager": self._managers[turn % 2]})
        self._client.delete(self.path)
        self._client.close()


Found = Callable[[], list[Json]]
"""Returns the findings that there are by now."""


@contextmanager
def by_watch(shop: Shop) -> Iterator[Found]:
    with shop.verb("watch", "-o", "json") as run:
        run.says("watching")
        yield lambda: [json.loads(one) for one in run.lines if one.startswith("{")]


@contextmanager
def by_serve(shop: Shop) -> Iterator[Found]:
    with Genguard("--audit-only", f"--kubeconfig={shop.plane.kubeconfig}") as guard:
        yield guard.findings


@pytest.mark.parametrize("finding", [by_watch, by_serve])
def test_four_fights_over_webhook_configurations_are_found_with_both_managers(
    apiserver: ControlPlane,
    namespace: NamespaceFactory,
    finding: Callable[[Shop], AbstractContextManager[Found]],
) -> None:
    shop = Shop(apiserver, namespace(apiserver))
    began = time.monotonic()
    with finding(shop) as findings, ExitStack() as stack:
        for resource, made, managers in FIGHTS:
            fight = Fight(apiserver.client_of("admin"), resource, made, managers)
            stack.enter_context(fight)

        def found() -> dict[str, Json]:
            shown = [one for one in findings() if one["severity"] != "info"]
            return {one["object"]["name"]: one for one in shown}

        wait_until(lambda: len(found()) == len(FIGHTS), what="all of them found")
        took = time.monotonic() - began
        last = found()
    assert took < _FOUND_SECONDS
    for _, made, managers in FIGHTS:
        one = last[f"fight-{made.__name__.replace('_', '-')}"]
        assert {actor["name"] for actor in one["actors"]} == {*managers}
        assert {(actor["type"], actor["confidence"]) for actor in one["actors"]} == {
            ("manager", "likely")
        }
        assert one["message"].endswith("a watch shows field managers, and no users")


def test_a_cluster_that_goes_its_way_is_quiet(
    apiserver: ControlPlane, namespace: NamespaceFactory
) -> None:
    shop = Shop(apiserver, namespace(apiserver))
    with shop.verb("watch", "configmaps", "--timeout=5s", "-o", "json") as run:
        run.says("watching")
        client, path = apiserver.client, f"/api/v1/namespaces/{shop.namespace}/configmaps"
        client.post(path, {"metadata": {"name": "settings"}, "data": {"a": "0"}})
        for turn in range(8):
            client.patch(f"{path}/settings", {"data": {"a": str(turn)}})
        run.ends(0)
    assert [one for one in run.lines if one.startswith("{")] == []


def test_all_kinds_are_watched_or_those_that_are_given(apiserver: ControlPlane) -> None:
    told = run(apiserver, "watch", "--all", "--timeout=2s").err
    assert "watching" in told
    assert "kinds for 2 s" in told


def test_by_default_a_fight_over_a_custom_resource_and_over_a_node_is_found(
    apiserver: ControlPlane, namespace: NamespaceFactory
) -> None:
    node, managers, client = unique("node"), ("helm-controller", "cloud-operator"), apiserver.client
    nodes = "/api/v1/nodes"
    labels = {"example.org/pool": "none"}  # who is created without any field has no manager
    client.post(nodes, {"metadata": {"name": node, "labels": labels}})
    with (
        Genguard("--audit-only", f"--kubeconfig={apiserver.kubeconfig}") as guard,
        # Defined while it runs.
        served(apiserver, namespace(apiserver), status_subresource=True) as widgets,
    ):
        widgets.create(spec={"size": 2})

        def found() -> dict[str, set[str]]:
            return {
                one["object"]["name"]: {actor["name"] for actor in one["actors"]}
                for one in guard.findings()
                if one["severity"] != "info"
            }

        def fought() -> bool:
            for turn, manager in enumerate(managers):
                params = {"fieldManager": manager}
                client.patch(f"{widgets.path}/one", {"spec": {"size": turn}}, params=params)
                label = {"metadata": {"labels": {"example.org/pool": f"p{turn}"}}}
                client.patch(f"{nodes}/{node}", label, params=params)
                time.sleep(0.5)
            return found().keys() >= {"one", node}

        wait_until(fought, what="both found")
        assert (found()["one"], found()[node]) == ({*managers}, {*managers})
        of_kind = json.loads(guard.ops("/api/findings?kind=node")[1])["findings"]
        assert {one["object"]["name"] for one in of_kind} == {node}
        note = json.loads(guard.ops("/api/findings?kind=cm")[1])["note"]
        hint = "repeat the install with its flags and --watch-kinds configmaps"
        assert note == f"not watched: configmaps: {hint}"
        assert not guard.log_lines("objects not watched")
    client.delete(f"{nodes}/{node}")


def test_a_kind_that_may_not_be_read_is_told_once_and_whoever_asks(
    apiserver: ControlPlane, tmp_path: Path
) -> None:
    with (
        account(apiserver, unique("system"), tmp_path / "kubeconfig") as own,
        served(apiserver, "default", status_subresource=False) as widgets,
        Genguard("--audit-only", f"--kubeconfig={own.kubeconfig}") as guard,
    ):
        asked = f"/api/findings?kind={widgets.resource}"
        wait_until(lambda: "run genguard install again" in guard.ops(asked)[1], what="told")
        time.sleep(4)  # it was tried again
        told = [one["resource"] for one in guard.log_lines("objects not watched")]
        assert told.count(widgets.resource) == 1

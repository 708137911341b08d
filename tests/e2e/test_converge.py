"""`genguard converge` on a real API server: what it says, and that nothing is stored."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tests.cases_loader import Case, table
from tests.controlplane.client import Client
from tests.controlplane.fixtures import NamespaceFactory
from tests.controlplane.plane import ControlPlane
from tests.controlplane.webhook_listener import Patch, WebhookListener
from tests.e2e.culprits import deployment, zeroes_observed_generation
from tests.scenarios.culprits import labels
from webhook.cli import main

Json = dict[str, Any]
WEB: Json = {"apiVersion": "apps/v1", "kind": "Deployment", **deployment("web", replicas=3)}
SETTINGS: Json = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "settings", "annotations": {"journal": "-"}},
    "data": {"a": "1"},
}
APPENDS = "appends/reviews.example.org"


def appends(request: Json) -> Patch:
    """Not idempotent: each call adds to what is there."""
    annotations = request["object"]["metadata"].get("annotations") or {}
    value = annotations | {"journal": f"{annotations.get('journal', '')}+"}
    return [{"op": "add", "path": "/metadata/annotations", "value": value}]


class Cluster:
    """One namespace, and the verb as a user types it."""

    def __init__(self, plane: ControlPlane, namespace: str) -> None:
        self.plane, self.namespace = plane, namespace

    @property
    def client(self) -> Client:
        return self.plane.client

    def path(self, plural: str) -> str:
        root = "/apis/apps/v1" if plural == "deployments" else "/api/v1"
        return f"{root}/namespaces/{self.namespace}/{plural}"

    def converge(self, *words: str, given: str = "") -> Result:
        flags = (f"--kubeconfig={self.plane.kubeconfig}", "-n", self.namespace)
        done = CliRunner().invoke(main, ["converge", *words, *flags], input=given)
        assert done.exception is None or isinstance(done.exception, SystemExit), done.exc_info
        return done

    def said_of(self, *manifests: Json) -> list[Json]:
        given = "".join(f"{json.dumps(one)}\n" for one in manifests)
        done = self.converge("-f", "-", "-o", "json", given=given)
        return [json.loads(line) for line in done.stdout.splitlines()]

    @contextmanager
    def calls(
        self, patch: Callable[[Any], Patch], *resources: str, name: str, **settings: Any
    ) -> Iterator[WebhookListener]:
        """A listener that runs and is registered while this is entered."""
        with (
            WebhookListener(self.plane.authority, patch) as listener,
            listener.registered(self.plane, self.namespace, resources, name=name, **settings),
        ):
            yield listener


@pytest.fixture
def cluster(apiserver: ControlPlane, namespace: NamespaceFactory) -> Cluster:
    return Cluster(apiserver, namespace(apiserver))


def contests(said: Json) -> list[tuple[str, str, str]]:
    return [(one["level"], one["contest"], one["field"]) for one in said["contested"]]


def test_an_idempotent_webhook_is_no_fight_and_an_appending_one_is(
    cluster: Cluster, tmp_path: Path
) -> None:
    path = tmp_path / "settings.yaml"
    path.write_text(
        "# of the shop\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: settings\n"
        "  annotations:\n    journal: '-'\ndata: {a: '1'}\n"
    )
    with cluster.calls(labels, "configmaps", name="labels"):
        done = cluster.converge("-f", str(path), "-o", "sarif")
        assert (done.exit_code, json.loads(done.stdout)["runs"][0]["results"]) == (0, [])
        with cluster.calls(appends, "configmaps", name="appends"):
            done = cluster.converge("-f", str(path), "-o", "sarif")
    assert done.exit_code == 1
    results = json.loads(done.stdout)["runs"][0]["results"]
    assert {one["level"] for one in results} == {"error"}
    (place,) = results[0]["locations"]
    assert place["physicalLocation"]["region"]["startLine"] == 7  # the annotation
    assert APPENDS in results[0]["message"]["text"]


def test_a_port_without_a_protocol_is_no_contest(cluster: Cluster) -> None:
    web = {"selector": {"app": "web"}, "ports": [{"port": 80}]}
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": web}
    (said,) = cluster.said_of(service)
    assert contests(said) == []


def test_the_table_shows_one_round_of_the_cycle(cluster: Cluster) -> None:
    with cluster.calls(appends, "configmaps", name="appends"):
        done = cluster.converge("-f", "-", given=json.dumps(SETTINGS))
    rows = [" ".join(line.split()) for line in done.stdout.splitlines()]
    assert rows[0] == f"configmaps/settings in namespace {cluster.namespace}: 1 fight"
    assert rows[1].startswith("fight field-overwritten metadata.annotations.journal")
    assert rows[2:] == ['the next apply leaves "-"', f'{APPENDS} leaves "-+"']


def test_nothing_is_stored_and_dry_runs_say_that_they_are(cluster: Cluster) -> None:
    cluster.client.post(cluster.path("configmaps"), SETTINGS)
    before = cluster.client.get(f"{cluster.path('configmaps')}/settings").body
    with cluster.calls(appends, "configmaps", name="appends") as listener:
        listener.reviews.clear()
        cluster.said_of(SETTINGS | {"data": {"a": "2"}}, WEB)
        assert listener.reviews
        assert all(one["request"]["dryRun"] for one in listener.reviews)
    assert cluster.client.get(f"{cluster.path('configmaps')}/settings").body == before
    assert not cluster.client.get(cluster.path("deployments")).body["items"]


def test_a_report_that_a_webhook_spoils_is_seen_before_there_is_an_object(cluster: Cluster) -> None:
    zeroes = zeroes_observed_generation
    with cluster.calls(zeroes, "deployments/status", name="old"):
        (said,) = cluster.said_of(WEB)
    assert contests(said) == [("fight", "status-lost", "status.observedGeneration")]
    assert said["contested"][0]["actors"][0] == {
        "type": "webhook",
        "name": "old/reviews.example.org",
        "confidence": "certain",
    }


def test_an_owner_with_another_value_and_an_autoscaler_are_told(cluster: Cluster) -> None:
    path = cluster.path("deployments")
    cluster.client.post(path, deployment("web", replicas=5), params={"fieldManager": "operator"})
    scaler = {
        "metadata": {"name": "web"},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "maxReplicas": 9,
        },
    }
    at = f"/apis/autoscaling/v2/namespaces/{cluster.namespace}/horizontalpodautoscalers"
    (said,) = cluster.said_of(WEB)
    assert contests(said) == [("fight", "owned-by-another", "spec.replicas")]
    assert said["contested"][0]["actors"][0]["name"] == "operator (Update)"
    cluster.client.post(at, scaler)
    (said,) = cluster.said_of(WEB)
    names = [one["actors"][0]["name"] for one in said["contested"]]
    assert sorted(names) == ["HorizontalPodAutoscaler web", "operator (Update)"]


def test_what_argo_cd_ignores_is_a_note(cluster: Cluster, tmp_path: Path) -> None:
    rule = {"group": "", "kind": "ConfigMap", "jsonPointers": ["/metadata/annotations/journal"]}
    application = {"kind": "Application", "spec": {"ignoreDifferences": [rule]}}
    path = tmp_path / "application.yaml"
    path.write_text(json.dumps(application))
    with cluster.calls(appends, "configmaps", name="appends"):
        flags = ("-f", "-", "-o", "json", f"--argocd-app={path}")
        done = cluster.converge(*flags, given=json.dumps(SETTINGS))
    assert (done.exit_code, json.loads(done.stdout)["contested"][0]["level"]) == (0, "note")


@table("converge/refused_manifests.yaml", "manifest", "told")
def test_a_manifest_that_cannot_be_applied_is_told(cluster: Cluster, case: Case) -> None:
    done = cluster.converge("-f", "-", given=json.dumps(case["manifest"]))
    assert done.exit_code == 1
    assert case["told"] in done.stderr, case.because


def test_values_of_a_secret_are_not_shown(cluster: Cluster) -> None:
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "key", "annotations": {"journal": "canary-1"}},
        "stringData": {"password": "canary-2"},
    }
    with cluster.calls(appends, "secrets", name="appends"):
        for form in ("table", "json", "sarif"):
            done = cluster.converge("-f", "-", "-o", form, given=json.dumps(secret))
            assert done.exit_code == 1
            assert "canary" not in done.output

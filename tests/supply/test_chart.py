"""The Helm chart makes what kustomize makes, and refuses what `install` refuses."""

import json
import subprocess
from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import yaml

import manifests
from tests.cases_loader import Case, load, table
from tests.controlplane.build import binary as control_plane_binary
from tests.unit.manifest_files import MANIFESTS
from tools.binaries import binary
from tools.chart import CHART, REPOSITORY, write
from webhook.install.plan import MANAGED_BY
from webhook.manifest.rendering import REGISTRATIONS, Choices, Outside, render

PAIR = {"tls.crt": b"a certificate\n", "tls.key": b"a key\n", "ca.crt": b"an authority\n"}
GIVEN = {"crt": "a certificate\n", "key": "a key\n", "ca": "an authority\n"}
STORE = "valkeys://me@valkey.shop.svc:6380/0?password-file=/etc/genguard/store/password"
HOOK = "helm.sh/hook"
REGISTER = "genguard-register"
Documents = dict[tuple[str, str], Any]


def keyed(documents: Any) -> Documents:
    found = [one for one in documents if one]
    by_name = {(one["kind"], one["metadata"]["name"]): one for one in found}
    assert len(by_name) == len(found)
    return by_name


def helm(given: Mapping[str, Any], *more: str, namespace: str = "genguard-system") -> Any:
    return subprocess.run(
        [binary("helm"), "template", "genguard", CHART, "-n", namespace, "-f", "-", *more],
        input=json.dumps(given),
        capture_output=True,
        text=True,
        check=False,
    )


def made(given: Mapping[str, Any], namespace: str = "genguard-system") -> Documents:
    """What is in the cluster in the end: the release, with the registrations of its Job."""
    found = rendered(given, namespace)
    hooks = [key for key, one in found.items() if HOOK in one["metadata"].get("annotations", {})]
    away = {key: found.pop(key) for key in hooks}
    if away:
        text = away["ConfigMap", REGISTER]["data"]["registrations.yaml"]
        found |= keyed(yaml.load_all(text, Loader=yaml.CSafeLoader))
    for (kind, _), document in found.items():
        if kind.endswith("WebhookConfiguration"):
            assert document["metadata"]["labels"].pop(MANAGED_BY) == "Helm"
    return found


def rendered(given: Mapping[str, Any], namespace: str = "genguard-system") -> Documents:
    done = helm({"createNamespace": True, **given}, namespace=namespace)
    assert done.returncode == 0, done.stderr
    return keyed(yaml.load_all(done.stdout, Loader=yaml.CSafeLoader))


@pytest.mark.parametrize(
    ("overlay", "given"),
    [
        ("audit-only", {"auditOnly": True}),
        ("enforce", {}),
        ("ha", {"ha": True}),
        ("cert-manager", {"certManager": True}),
    ],
)
def test_each_overlay_is_what_kubectl_makes_of_it(overlay: str, given: dict[str, Any]) -> None:
    command = [control_plane_binary("kubectl"), "kustomize", MANIFESTS / "overlays" / overlay]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert made({**given, "registrations": "fixed"}) == keyed(
        yaml.load_all(done.stdout, Loader=yaml.CSafeLoader)
    )


MODES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "enforce": ({}, {}),
    "fixed": ({"registrations": "fixed"}, {"follow": False}),
    "no-heal": ({"heal": False}, {"heal": False}),
    "audit-only": ({"auditOnly": True}, {"audit_only": True, "heal": False}),
}
CERTIFICATES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "own": ({"certificate": GIVEN}, {}),
    "cert-manager": ({"certManager": True}, {"cert_manager": True}),
}
STORES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "one": ({}, {}),
    "valkey": ({"ha": True}, {"ha": True}),
    "store": ({"ha": True, "store": STORE}, {"ha": True, "store": STORE}),
}


@pytest.mark.parametrize(
    ("mode", "certificate", "store"), list(product(MODES, CERTIFICATES, STORES))
)
def test_each_combination_is_what_install_renders(mode: str, certificate: str, store: str) -> None:
    parts = (MODES[mode], CERTIFICATES[certificate], STORES[store])
    given = {key: value for values_, _ in parts for key, value in values_.items()}
    choices = Choices(**{key: value for _, chosen in parts for key, value in chosen.items()})
    assert made(given) == keyed(render(choices, manifests.read, PAIR))


@table("chart/options.yaml", "given", "chosen")
def test_each_option_of_install_is_a_value(case: Case) -> None:
    chosen = {
        name: tuple(one) if isinstance(one, list) else one for name, one in case["chosen"].items()
    }
    wanted = render(Choices(**chosen), manifests.read, PAIR)
    assert made({"certificate": GIVEN, **case["given"]}) == keyed(wanted), case.because


def test_another_namespace_is_in_every_name() -> None:
    wanted = render(Choices(namespace="guard", ha=True), manifests.read, PAIR)
    found = made({"certificate": GIVEN, "ha": True}, namespace="guard")
    assert found == keyed(wanted)
    assert "genguard-system" not in str(found)


def test_a_server_outside_the_cluster_is_only_registered() -> None:
    outside = Outside("https://192.0.2.1:8443", b"an authority\n")
    given = {"outside": {"url": "https://192.0.2.1:8443", "caBundle": "an authority\n"}}
    wanted = keyed(render(Choices(outside=outside), manifests.read, {}))
    assert made(given) == wanted
    assert len(wanted) == 3


def test_without_a_given_pair_the_chart_sets_no_field_that_the_server_renews() -> None:
    """So that an upgrade, a rollback or a GitOps controller never writes an old one back."""
    found = made({})
    assert "data" not in found["Secret", "genguard-tls"]
    for (kind, _), document in found.items():
        if kind.endswith("WebhookConfiguration"):
            for webhook in document["webhooks"]:
                assert "caBundle" not in webhook["clientConfig"]
                assert webhook["failurePolicy"] == "Ignore"


def test_the_release_has_registrations_that_call_nobody_and_a_job_fills_them() -> None:
    """Helm removes what it made, and its upgrades touch no field that it did not set."""
    found = rendered({})
    for key in REGISTRATIONS:
        assert found[key].keys() == {"apiVersion", "kind", "metadata"}
    text = found["ConfigMap", REGISTER]["data"]["registrations.yaml"]
    whole = keyed(yaml.load_all(text, Loader=yaml.CSafeLoader))
    assert set(whole) == set(REGISTRATIONS)
    for key, document in whole.items():
        assert found[key]["metadata"] == document["metadata"]
    pod = found["Job", REGISTER]["spec"]["template"]
    (container,) = pod["spec"]["containers"]
    (mount,) = (one for one in container["volumeMounts"] if one["name"] == "registrations")
    file = f"--registrations-file={mount['mountPath']}/registrations.yaml"
    assert container["args"] == ["install", "--yes", file, "--namespace=genguard-system"]
    assert pod["metadata"]["labels"]["app.kubernetes.io/name"] != "genguard", "the Service's"
    deployment = found["Deployment", "genguard"]["spec"]["template"]["spec"]["containers"]
    assert container["image"] == deployment[0]["image"]


def test_a_release_that_was_not_to_register_has_no_registration_and_no_job() -> None:
    outside = {"outside": {"url": "https://192.0.2.1:8443", "caBundle": "an authority\n"}}
    for more in ({}, outside):
        found = rendered({"register": False, **more})
        assert {kind for kind, _ in found if "Webhook" in kind or kind == "Job"} == set()


def test_nothing_is_drawn_by_chance_and_no_namespace_is_made_by_default() -> None:
    done = helm({})
    assert ("Namespace", "genguard-system") not in keyed(yaml.safe_load_all(done.stdout))
    assert helm({}).stdout == done.stdout


def test_flags_of_serve_are_arguments() -> None:
    given = {
        "serve": {
            "log-level": "DEBUG",
            "flip-status": ["widgets.example.org", "gauges.example.org"],
            "dns-name": ["a.example.org", "b.example.org"],
            "object-metrics": 1_000_000,
            "watch": "pods",
        }
    }
    before = made({})["Deployment", "genguard"]
    after = made(given)["Deployment", "genguard"]
    (container,) = after["spec"]["template"]["spec"]["containers"]
    (plain,) = before["spec"]["template"]["spec"]["containers"]
    assert container["args"][len(plain["args"]) :] == [
        "--dns-name=a.example.org",
        "--dns-name=b.example.org",
        "--flip-status=widgets.example.org,gauges.example.org",
        "--log-level=DEBUG",
        "--object-metrics=1000000",
        "--watch=pods",
    ]


def test_custom_resources_are_watched_and_deletions_by_the_one_that_sends_no_patch() -> None:
    widget = {"group": "example.com", "version": "v1", "resource": "widgets"}
    found = made({"customResources": [{**widget, "subresources": ["status"]}]})
    for (kind, _), document in found.items():
        if kind.endswith("WebhookConfiguration"):
            rules = document["webhooks"][0]["rules"][-2:]
            deletes = ["DELETE"] if kind.startswith("Validating") else []
            assert [(rule["resources"], rule["operations"]) for rule in rules] == [
                (["widgets"], ["CREATE", "UPDATE", *deletes]),
                (["widgets/status"], ["UPDATE"]),
            ]


def test_parts_for_pods_and_dashboards_are_where_they_belong() -> None:
    (case,) = load("chart/parts.yaml", "pod", "more")
    pod, more = case["pod"], case["more"]
    found = made({**pod, **more, "monitoring": True, "opsAuth": True, "ha": True})
    assert found["ServiceAccount", "genguard"]["metadata"]["annotations"] == {"cloud": "role"}
    for key in (("Deployment", "genguard"), ("StatefulSet", "genguard-valkey")):
        spec = found[key]["spec"]["template"]["spec"]
        assert {name: spec[name] for name in pod} == pod
        assert spec["priorityClassName"] == "important"
    template = found["Deployment", "genguard"]["spec"]["template"]
    assert template["metadata"]["annotations"] == {"a": "b"}
    assert template["metadata"]["labels"]["team"] == "platform"
    assert template["spec"]["topologySpreadConstraints"] == more["topologySpreadConstraints"]
    (container,) = template["spec"]["containers"]
    assert container["resources"] == {"limits": {"memory": "2Gi"}}
    assert container["imagePullPolicy"] == "Always"
    rules = manifests.read("monitoring/rules.yaml").decode()
    shown = rules.replace("http://localhost", "https://localhost")
    assert found["PrometheusRule", "genguard"] == yaml.safe_load(shown)
    dashboard = found["ConfigMap", "genguard-dashboard"]["data"]["genguard.json"]
    assert dashboard == manifests.read("monitoring/grafana/genguard.json").decode()
    (endpoint,) = found["PodMonitor", "genguard"]["spec"]["podMetricsEndpoints"]
    assert endpoint["scheme"] == "https"


@pytest.mark.parametrize("ha", [False, True])
def test_more_variables_of_the_server_stand_beside_its_own(*, ha: bool) -> None:
    more = [{"name": "HTTPS_PROXY", "value": "http://proxy:3128"}]

    def variables(given: dict[str, Any]) -> Any:
        pod = made({"ha": ha, **given})["Deployment", "genguard"]["spec"]["template"]["spec"]
        return pod["containers"][0].get("env", [])

    assert variables({"extraEnv": more}) == [*variables({}), *more]


def test_alerts_of_prometheus_and_of_the_server_link_the_runbooks_that_are_given() -> None:
    rules = manifests.read("monitoring/rules.yaml").decode()
    assert made({"monitoring": True})["PrometheusRule", "genguard"] == yaml.safe_load(rules)
    given = "https://wiki.example.org/genguard"
    found = made({"monitoring": True, "opsAuth": True, "serve": {"runbook-url": f"{given}/"}})
    shown = rules.replace("http://localhost:8080/runbooks", given)
    assert found["PrometheusRule", "genguard"] == yaml.safe_load(shown)
    (container,) = found["Deployment", "genguard"]["spec"]["template"]["spec"]["containers"]
    assert f"--runbook-url={given}/" in container["args"]


@table("chart/refused.yaml", "given", "said")
def test_values_that_cannot_be_are_refused_by_name(case: Case) -> None:
    done = helm(case["given"])
    assert done.returncode != 0, case.because
    assert case["said"] in done.stderr, case.because


def test_helm_finds_nothing_to_complain_about_and_packs_it(tmp_path: Path) -> None:
    run = [binary("helm"), "lint", "--strict", CHART]
    done = subprocess.run(run, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    write(tmp_path / "genguard", "sha256:" + "1" * 64)
    run = [binary("helm"), "package", tmp_path / "genguard", "-d", tmp_path]
    subprocess.run(run, capture_output=True, check=True)
    (archive,) = tmp_path.glob("genguard-*.tgz")
    shown = [binary("helm"), "template", "genguard", archive]
    out = subprocess.run(shown, capture_output=True, text=True, check=True).stdout
    assert f"{REPOSITORY}@sha256:" + "1" * 64 in out

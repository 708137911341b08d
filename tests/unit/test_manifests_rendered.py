"""What kustomize makes of the overlays, by the kubectl that people will use."""

import base64
import re
import shutil
import subprocess
from datetime import UTC, datetime

import pytest
import yaml

from certs import ensure, inspect, installed_names
from tests.controlplane.build import binary
from tests.unit.manifest_files import MANIFESTS, registrations, webhook_of
from webhook.cli.serve import serve

pytestmark = pytest.mark.slow  # make quick needs no Go: it would build kubectl

NOW = datetime.now(UTC)
NAMES = installed_names("genguard", "genguard-system")


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    """A copy of manifests/, beside which a test puts an overlay of its own."""
    folder = tmp_path_factory.mktemp("repository")
    shutil.copytree(MANIFESTS, folder / "manifests")
    return folder


@pytest.fixture(scope="module")
def rendered(repository):
    def render(folder):
        command = [binary("kubectl"), "kustomize", repository / folder]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        return list(yaml.safe_load_all(done.stdout))

    return render


def of_kind(found, suffix):
    return {
        document["metadata"]["name"]: document
        for document in found
        if document["kind"].endswith(suffix)
    }


@pytest.mark.parametrize("overlay", ["audit-only", "enforce", "ha"])
def test_an_overlay_builds_from_a_clone_and_leaves_the_certificate_to_the_server(rendered, overlay):
    """So a GitOps controller that points at it never writes an old pair back."""
    found = rendered(f"manifests/overlays/{overlay}")
    (secret,) = of_kind(found, "Secret").values()
    assert not secret.keys() & {"data", "stringData", "type"}
    for document in of_kind(found, "WebhookConfiguration").values():
        assert "caBundle" not in webhook_of(document)["clientConfig"]
        assert document["metadata"]["annotations"] == {"argocd.argoproj.io/sync-wave": "1"}
    (deployment,) = of_kind(found, "Deployment").values()
    volumes = deployment["spec"]["template"]["spec"]["volumes"]
    assert secret["metadata"]["name"] in str(volumes)


def test_the_documented_overlay_serves_a_pair_of_your_own(rendered, repository):
    mine = repository / "own-pair"
    readme = (MANIFESTS / "README.md").read_text()
    (example,) = re.findall(r"```yaml\n(# own-pair/kustomization\.yaml\n.*?)```", readme, re.DOTALL)
    ensure(mine, names=NAMES, at=NOW)
    (mine / "kustomization.yaml").write_text(example)
    found = rendered("own-pair")
    (secret,) = of_kind(found, "Secret").values()
    assert set(secret["data"]) == {"tls.crt", "tls.key", "ca.crt"}, "ca.key signs: it stays away"
    pair = {name: base64.b64decode(value) for name, value in secret["data"].items()}
    bundles = {
        base64.b64decode(webhook_of(document)["clientConfig"]["caBundle"])
        for document in of_kind(found, "WebhookConfiguration").values()
    }
    assert bundles == {pair["ca.crt"]}
    seen = inspect(pair["tls.crt"], pair["tls.key"], pair["ca.crt"], at=NOW, names=NAMES)
    assert seen.problems == ()


def test_the_registrations_are_the_ones_that_the_other_tests_read(rendered):
    found = of_kind(rendered("manifests/overlays/enforce"), "WebhookConfiguration")
    for document in registrations().values():
        ours = found[document["metadata"]["name"]]
        assert ours["webhooks"] == document["webhooks"]
        assert ours["metadata"]["labels"] == {
            "app.kubernetes.io/name": "genguard",
            "app.kubernetes.io/component": "registration",
        }


def test_the_server_can_be_applied_before_the_registrations(rendered):
    """`-l app.kubernetes.io/component=server` picks everything but the registrations."""
    for document in rendered("manifests/overlays/enforce"):
        component = document["metadata"]["labels"]["app.kubernetes.io/component"]
        registration = document["kind"].endswith("WebhookConfiguration")
        assert component == ("registration" if registration else "server"), document["kind"]


def test_namespace_and_identity_come_first_and_registrations_last(rendered):
    kinds = [document["kind"] for document in rendered("manifests/overlays/enforce")]
    assert kinds[0] == "Namespace"
    assert [kind for kind in kinds[-3:] if kind.endswith("WebhookConfiguration")] == kinds[-3:]


def test_the_off_switch_needs_no_certificate(rendered, repository):
    shutil.rmtree(repository / "without", ignore_errors=True)
    shutil.copytree(MANIFESTS / "base", repository / "without")
    assert len(rendered("without/registrations")) == 3


def test_labels_are_no_part_of_selectors(rendered):
    """A selector cannot be changed later, and the component label is for people."""
    (deployment,) = of_kind(rendered("manifests/overlays/enforce"), "Deployment").values()
    labels = {"app.kubernetes.io/name": "genguard"}
    assert deployment["spec"]["selector"]["matchLabels"] == labels
    assert deployment["spec"]["template"]["metadata"]["labels"] == labels


def test_the_documented_patch_adds_a_custom_resource_to_all_three(rendered, repository):
    readme = (MANIFESTS / "README.md").read_text()
    (example,) = re.findall(r"```yaml\n(# kustomization\.yaml\n.*?)```", readme, re.DOTALL)
    mine = repository / "mine"
    mine.mkdir(exist_ok=True)
    (mine / "kustomization.yaml").write_text(example)
    found = of_kind(rendered("mine"), "WebhookConfiguration")
    assert len(found) == 3
    for name, document in found.items():
        added = [r for r in webhook_of(document)["rules"] if r["apiGroups"] == ["example.com"]]
        operations = [rule["operations"] for rule in added]
        deletions = [["DELETE"]] if name.endswith("outcome") else []
        assert operations == [["CREATE", "UPDATE"], ["UPDATE"], *deletions]


def test_monitoring_is_a_component_that_adds_to_any_overlay(rendered, repository):
    readme = (MANIFESTS / "monitoring" / "README.md").read_text()
    (example,) = re.findall(r"```yaml\n(# kustomization\.yaml\n.*?)```", readme, re.DOTALL)
    watched = repository / "watched"
    watched.mkdir(exist_ok=True)
    (watched / "kustomization.yaml").write_text(example)
    plain = {str(document) for document in rendered("manifests/overlays/enforce")}
    added = [one for one in rendered("watched") if str(one) not in plain]
    by_kind = {document["kind"]: document for document in added}
    assert set(by_kind) == {"PodMonitor", "PrometheusRule", "NetworkPolicy", "ConfigMap"}
    for kind in ("PodMonitor", "PrometheusRule"):
        labels = by_kind[kind]["metadata"]["labels"]
        assert labels["app.kubernetes.io/component"] == "monitoring"
        assert labels["release"] == "prometheus"
        assert by_kind[kind]["metadata"]["namespace"] == "genguard-system"
    assert {"port": 9093, "protocol": "TCP"} in [
        port for rule in by_kind["NetworkPolicy"]["spec"]["egress"] for port in rule["ports"]
    ]


def test_with_ops_auth_people_and_prometheus_show_a_token_over_tls_and_probes_none(
    rendered, repository
):
    mine = repository / "shown"
    mine.mkdir(exist_ok=True)
    readme = (MANIFESTS / "README.md").read_text()
    (example,) = re.findall(r"```yaml\n(# shown/kustomization\.yaml\n.*?)```", readme, re.DOTALL)
    (mine / "kustomization.yaml").write_text(example)
    found = rendered("shown")
    (deployment,) = of_kind(found, "Deployment").values()
    container = deployment["spec"]["template"]["spec"]["containers"][0]
    verb, *flags = container["args"]
    params = serve.make_context(verb, flags).params
    assert (params["ops_auth"], params["ops_tls"]) == ("kubernetes", True)
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert container[probe]["httpGet"]["scheme"] == "HTTPS"
    (monitor,) = of_kind(found, "PodMonitor").values()
    (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
    secret = of_kind(found, "Secret")[endpoint["authorization"]["credentials"]["name"]]
    assert secret["type"] == "kubernetes.io/service-account-token"
    assert endpoint["scheme"] == "https"
    assert endpoint["tlsConfig"]["serverName"] in NAMES


def test_the_pods_that_are_scraped_are_the_ones_that_run(rendered):
    (monitor,) = yaml.safe_load_all((MANIFESTS / "monitoring" / "scrape.yaml").read_text())
    (deployment,) = of_kind(rendered("manifests/overlays/enforce"), "Deployment").values()
    template = deployment["spec"]["template"]
    assert monitor["spec"]["selector"] == deployment["spec"]["selector"]
    (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
    ports = [port["name"] for port in template["spec"]["containers"][0]["ports"]]
    assert endpoint["port"] in ports
    job = template["metadata"]["labels"][monitor["spec"]["jobLabel"]]
    rules = (MANIFESTS / "monitoring" / "rules.yaml").read_text()
    assert set(re.findall(r'job="([^"]*)"', rules)) == {job}


@pytest.mark.parametrize("readme", ["README.md", "kind/README.md", "monitoring/README.md"])
def test_every_path_that_a_document_names_is_there(readme):
    text = (MANIFESTS / readme).read_text()
    for path in set(re.findall(r"manifests/[a-z][a-z/.-]*[a-z]", text)):
        assert (MANIFESTS.parent / path).exists(), path

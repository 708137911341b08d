"""What kustomize makes of the overlays, by the kubectl that people will use."""

import base64
import re
import shutil
import subprocess
from datetime import UTC, datetime
from urllib.parse import parse_qsl, urlsplit

import pytest
import yaml

from certs import ensure, inspect, installed_names
from certs.files import CA_FILE
from tests.controlplane.build import binary
from tests.unit.manifest_files import MANIFESTS, registrations, webhook_of
from webhook.cli.serve import serve
from webhook.cluster.connection import POD_NAME
from webhook.cluster.standby import ACTIVE
from webhook.manifest.rendering import PASSWORD, REGISTRATIONS
from webhook.server.access import Part
from webhook.server.watching import parse_watched

pytestmark = pytest.mark.slow  # make quick needs no Go: it would build kubectl

NOW = datetime.now(UTC)
NAMES = installed_names("genguard", "genguard-system")
CHANGED = ("Deployment", "NetworkPolicy")
"""What replicas that all answer make different; a Valkey is new."""


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


def test_the_two_overlays_differ_in_one_argument_and_the_rights_to_heal(rendered):
    enforce, audit_only = (rendered(f"manifests/overlays/{n}") for n in ("enforce", "audit-only"))
    for documents, flag in ((audit_only, "--audit-only"), (enforce, "--heal")):
        (deployment,) = of_kind(documents, "Deployment").values()
        assert deployment["spec"]["template"]["spec"]["containers"][0]["args"].pop() == flag
    rights = [one for one in enforce if one["metadata"]["name"] == "genguard-heal"]
    assert [one["kind"] for one in rights] == ["ClusterRole", "ClusterRoleBinding"]
    assert [one for one in enforce if one not in rights] == audit_only


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


@pytest.mark.parametrize("overlay", ["audit-only", "enforce", "cert-manager"])
def test_one_pod_is_active_and_another_stands_by(rendered, overlay):
    found = rendered(f"manifests/overlays/{overlay}")
    (deployment,) = of_kind(found, "Deployment").values()
    assert deployment["spec"]["replicas"] == 2
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    verb, *flags = container["args"]
    assert serve.make_context(verb, flags).params["standby"]
    named = {"name": POD_NAME, "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}
    assert container["env"] == [named]
    (service,) = of_kind(found, "Service").values()
    assert service["spec"]["selector"] == {"app.kubernetes.io/name": "genguard", ACTIVE: "true"}
    assert ACTIVE not in deployment["spec"]["template"]["metadata"]["labels"]


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


def test_what_the_server_watches_it_may_list_and_watch_and_nothing_else(rendered):
    found = rendered("manifests/overlays/audit-only")
    (deployment,), (role,) = (
        of_kind(found, kind).values() for kind in ("Deployment", "ClusterRole")
    )
    verb, *flags = deployment["spec"]["template"]["spec"]["containers"][0]["args"]
    assert verb == serve.name
    watched = parse_watched(serve.make_context(verb, flags).params["watch"])
    granted = {
        f"{resource}.{rule['apiGroups'][0]}".rstrip(".")
        for rule in role["rules"]
        if rule["verbs"] == ["get", "list", "watch"]
        for resource in rule["resources"]
        if "admissionregistration.k8s.io" not in rule["apiGroups"]
    }
    assert granted == {*watched}


def test_the_pods_may_renew_the_certificate_that_they_serve_and_no_other(rendered, repository):
    """The component in whose place cert-manager may be adds the flag and these rights."""
    found = rendered("manifests/overlays/enforce")
    plain = rendered("manifests/overlays/cert-manager")
    (deployment,) = of_kind(found, "Deployment").values()
    verb, *flags = deployment["spec"]["template"]["spec"]["containers"][0]["args"]
    assert verb == serve.name
    (secret,) = of_kind(found, "Secret")
    assert serve.make_context(verb, flags).params["cert_secret"] == secret
    added = []
    for kind in ("Role", "ClusterRole"):
        (now,), (before,) = (
            [
                one
                for one in documents
                if one["kind"] == kind and one["metadata"]["name"] == "genguard"
            ]
            for documents in (found, plain)
        )
        added += [rule for rule in now["rules"] if rule not in before["rules"]]
    assert all(len(rule["resources"]) == 1 for rule in added)
    granted = {rule["resources"][0]: (rule["resourceNames"], rule["verbs"]) for rule in added}
    names = {kind: [] for kind, _ in REGISTRATIONS}
    for kind, name in REGISTRATIONS:
        names[kind].append(name)
    assert granted == {
        "secrets": ([secret], ["get", "list", "watch", "update"]),
        **{f"{kind.lower()}s": (named, ["get", "update"]) for kind, named in names.items()},
    }
    assert [
        (one["kind"], one["metadata"]["name"]) for one in found if one["kind"] in names
    ] == list(REGISTRATIONS)


def test_replicas_get_a_store_and_the_way_to_it(rendered):
    plain, found = rendered("manifests/overlays/enforce"), rendered("manifests/overlays/ha")
    assert all(document in found for document in plain if document["kind"] not in CHANGED)
    changed = {kind: of_kind(found, kind)["genguard"] for kind in CHANGED}
    deployment = changed["Deployment"]["spec"]
    assert deployment["replicas"] == 3
    pod = deployment["template"]["spec"]
    verb, *flags = pod["containers"][0]["args"]
    assert verb == serve.name
    given = serve.make_context(verb, flags).params
    assert given["standby"]
    store = urlsplit(given["store"])
    named = dict(parse_qsl(store.query))
    (mount,) = (one for one in pod["containers"][0]["volumeMounts"] if one["name"] == "store")
    (volume,) = (one for one in pod["volumes"] if one["name"] == "store")
    assert volume["secret"]["secretName"] == "genguard-store"
    (certificate,) = (one for one in pod["containers"][0]["volumeMounts"] if one["name"] == "tls")
    assert named == {
        "password-file": f"{mount['mountPath']}/{PASSWORD}",
        "cafile": f"{certificate['mountPath']}/{CA_FILE}",
    }
    (way,) = changed["NetworkPolicy"]["spec"]["egress"][-1:]
    assert [port["port"] for port in way["ports"]] == [store.port]
    service = of_kind(found, "Service")[store.hostname.split(".")[0]]
    assert store.hostname == f"{service['metadata']['name']}.{service['metadata']['namespace']}.svc"
    assert [port["port"] for port in service["spec"]["ports"]] == [store.port]
    (to,) = way["to"]
    assert to["podSelector"]["matchLabels"] == service["spec"]["selector"]
    (quota,) = of_kind(found, "ResourceQuota").values()
    assert int(quota["spec"]["hard"]["pods"]) >= deployment["replicas"] + 2


def test_the_certificate_names_the_store_whoever_makes_it(rendered):
    (address,) = (
        argument.removeprefix("--store=")
        for argument in of_kind(rendered("manifests/overlays/ha"), "Deployment")["genguard"][
            "spec"
        ]["template"]["spec"]["containers"][0]["args"]
        if argument.startswith("--store=")
    )
    host = urlsplit(address).hostname
    assert host in NAMES
    certificates = of_kind(rendered("manifests/overlays/cert-manager"), "Certificate")
    assert host in certificates["genguard"]["spec"]["dnsNames"]


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
    roles = of_kind(found, "ClusterRole")
    paths = {
        name: rule["nonResourceURLs"]
        for name in roles
        for rule in roles[name]["rules"]
        if "nonResourceURLs" in rule
    }
    assert paths == {
        "genguard-view": [Part.OBSERVED],
        "genguard-metrics": [Part.METRICS],
    }
    bound = {one["roleRef"]["name"] for one in of_kind(found, "ClusterRoleBinding").values()}
    assert bound == {"genguard", "genguard-heal", "genguard-metrics", "system:auth-delegator"}
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

"""The command line of install: what fits together, and manifests without a cluster."""

from datetime import UTC, datetime

import pytest
import yaml
from click.testing import CliRunner

import manifests
from certs import PairSnapshot, ensure, installed_names
from webhook.cli import main
from webhook.manifest.rendering import Choices, is_registration, pair_files, render

NAME_LABEL = "kubernetes.io/metadata.name"


def run(*arguments: str):
    return CliRunner().invoke(main, ["install", *arguments], env={"KUBECONFIG": "/nowhere"})


def test_yaml_is_what_kustomize_renders_with_the_same_certificate(tmp_path):
    names = installed_names("genguard", "genguard-system")
    pair = ensure(tmp_path, names=names, at=datetime.now(UTC)).pair
    found = run("-o", "yaml", "--audit-only", "--cert-dir", str(tmp_path))
    assert found.exit_code == 0, found.output
    expected = render(Choices(audit_only=True, follow=False), manifests.read, pair_files(pair))
    assert list(yaml.safe_load_all(found.stdout)) == expected


def test_yaml_has_a_valkey_for_replicas_and_the_password_of_nobody():
    found = run("-o", "yaml", "--ha", "--store-image", "r.example.org/valkey:8")
    assert found.exit_code == 0, found.output
    documents = list(yaml.safe_load_all(found.stdout))
    (valkey,) = (one for one in documents if one["kind"] == "StatefulSet")
    (container,) = valkey["spec"]["template"]["spec"]["containers"]
    assert container["image"] == "r.example.org/valkey:8"
    secrets = [one["metadata"]["name"] for one in documents if one["kind"] == "Secret"]
    assert secrets == ["genguard-tls"]


@pytest.mark.parametrize(
    ("flags", "heals"),
    [([], True), (["--no-heal"], False), (["--audit-only"], False), (["--ha", "--heal"], True)],
)
def test_heal_and_its_rights_come_together_where_it_enforces(flags, heals):
    documents = list(yaml.safe_load_all(run("-o", "yaml", *flags).stdout))
    (deployment,) = (one for one in documents if one["kind"] == "Deployment")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert ("--heal" in container["args"]) is heals
    names = {one["metadata"]["name"] for one in documents if one["kind"].startswith("ClusterRole")}
    assert ("genguard-heal" in names) is heals


def test_yaml_lets_nobody_but_the_api_servers_that_were_named_reach_the_webhook_port():
    found = run("-o", "yaml", "--api-server-cidr", "10.0.0.0/28, 192.0.2.7")
    documents = list(yaml.safe_load_all(found.stdout))
    (policy,) = (one for one in documents if one["kind"] == "NetworkPolicy")
    assert policy["spec"]["ingress"][0]["from"] == [
        {"ipBlock": {"cidr": "10.0.0.0/28"}},
        {"ipBlock": {"cidr": "192.0.2.7/32"}},
    ]


def test_yaml_sends_alerts_to_an_alertmanager_and_lets_them_out():
    url = "http://alertmanager.monitoring.svc:9093"
    documents = list(yaml.safe_load_all(run("-o", "yaml", "--alertmanager", url).stdout))
    (deployment,) = (one for one in documents if one["kind"] == "Deployment")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert f"--alertmanager={url}" in container["args"]
    (policy,) = (one for one in documents if one["kind"] == "NetworkPolicy")
    assert policy["spec"]["egress"][-1] == {
        "ports": [{"port": 9093, "protocol": "TCP"}],
        "to": [{"namespaceSelector": {"matchLabels": {NAME_LABEL: "monitoring"}}}],
    }


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--audit-only"], "leave out --audit-only: with --registrations-file"),
        (["-o", "yaml"], "leave one out"),
        ([], "it must hold 0--genguard-intent, zzzzzz-genguard-mutate, zzzzzz-genguard-outcome"),
    ],
)
def test_registrations_of_a_file_come_alone_and_whole(tmp_path, flags, said):
    documents = render(Choices(), manifests.read, pair_files(PairSnapshot(b"", b"", b"")))
    wanted = [one for one in documents if is_registration(one)]
    file = tmp_path / "registrations.yaml"
    file.write_text(yaml.safe_dump_all(wanted if flags else wanted[1:]))
    found = run("--registrations-file", str(file), *flags)
    assert found.exit_code == 2
    assert said in " ".join(found.stderr.split())

"""The command line of install: what fits together, and manifests without a cluster."""

from datetime import UTC, datetime

import pytest
import yaml
from click.testing import CliRunner

import manifests
from certs import PairSnapshot, ensure, installed_names
from webhook.cli import main
from webhook.manifest.rendering import Choices, is_registration, render


def run(*arguments: str):
    return CliRunner().invoke(main, ["install", *arguments], env={"KUBECONFIG": "/nowhere"})


def printed(*flags: str):
    """The manifests that it prints."""
    found = run("-o", "yaml", *flags)
    assert found.exit_code == 0, found.output
    return list(yaml.safe_load_all(found.stdout))


def test_yaml_is_what_kustomize_renders_with_the_same_certificate(tmp_path):
    names = installed_names("genguard", "genguard-system")
    pair = ensure(tmp_path, names=names, at=datetime.now(UTC)).pair
    expected = render(Choices(audit_only=True, follow=False), manifests.read, pair.files)
    assert printed("--audit-only", "--cert-dir", str(tmp_path)) == expected


def test_yaml_has_a_valkey_for_replicas_and_the_password_of_nobody():
    documents = printed("--ha", "--store-image", "r.example.org/valkey:8")
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
    documents = printed(*flags)
    (deployment,) = (one for one in documents if one["kind"] == "Deployment")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert ("--heal" in container["args"]) is heals
    names = {one["metadata"]["name"] for one in documents if one["kind"].startswith("ClusterRole")}
    assert ("genguard-heal" in names) is heals


def test_yaml_lets_nobody_but_the_api_servers_that_were_named_reach_the_webhook_port():
    documents = printed("--api-server-cidr", "10.0.0.0/28, 192.0.2.7")
    (policy,) = (one for one in documents if one["kind"] == "NetworkPolicy")
    assert policy["spec"]["ingress"][0]["from"] == [
        {"ipBlock": {"cidr": "10.0.0.0/28"}},
        {"ipBlock": {"cidr": "192.0.2.7/32"}},
    ]


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--audit-only"], "leave out --audit-only: with --registrations-file"),
        (["-o", "yaml"], "leave one out"),
        ([], "it must hold 0--genguard-intent, zzzzzz-genguard-mutate, zzzzzz-genguard-outcome"),
    ],
)
def test_registrations_of_a_file_come_alone_and_whole(tmp_path, flags, said):
    documents = render(Choices(), manifests.read, PairSnapshot(b"", b"", b"").files)
    wanted = [one for one in documents if is_registration(one)]
    file = tmp_path / "registrations.yaml"
    file.write_text(yaml.safe_dump_all(wanted if flags else wanted[1:]))
    found = run("--registrations-file", str(file), *flags)
    assert found.exit_code == 2
    assert said in " ".join(found.stderr.split())

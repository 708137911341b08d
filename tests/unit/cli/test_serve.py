"""`genguard serve`: flags that cannot be are refused, each with what, where and what to do."""

import sys
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from tests.unit.cli.samples import DEFINITION, serve, write_lines
from webhook.cli import main
from webhook.cli.serve import new_event_loop


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--tls-cert-file", "a"], "--tls-cert-file and --tls-private-key-file go together"),
        (["--tls-private-key-file", "a"], "--tls-cert-file and --tls-private-key-file go together"),
        (["--cert-secret", "a"], "--cert-secret needs a cluster: give --kubeconfig"),
        (
            ["--cert-secret", "a", "--kubeconfig", "k", "--cert-dir", "c"],
            "give either --cert-secret or --cert-dir",
        ),
        (["--cert-lifetime", "soon"], "'soon' is not a time up to 8760h, such as 30s or 5m"),
        (
            ["--tls-cert-file", "a", "--tls-private-key-file", "b", "--cert-dir", "c"],
            "give either --tls-cert-file or --cert-dir",
        ),
        (["--server-version", "newest"], "'newest' is no Kubernetes version; write it as 1.36"),
        (["--generation-patch", "sometimes"], "is not one of 'auto', 'always', 'never'"),
        (["--flip-status", "deployments.apps"], "a built-in kind"),
        (["--flip-status", "widgets.example.org"], "give --crds or --kubeconfig"),
        (["--secure-port", "70000"], "70000 is not in the range 0<=x<=65535"),
        (["--secure-port", "https"], "'https' is not a valid integer range"),
        (["--store", "disk"], "--store: give memory"),
        (["--store", "sqlite:/nowhere/state.db"], "it cannot be opened; is its folder there"),
        (
            ["--store", "valkey://host/0"],
            "elects who reads it: give --kubeconfig",
        ),
        (["--log-level", "LOUD"], "'LOUD' is not one of"),
        (["--heal"], "--heal needs a cluster: give --kubeconfig"),
        (["--standby"], "--standby needs a cluster: give --kubeconfig"),
        (["--findings-configmap", "a"], "--findings-configmap needs a cluster: give --kubeconfig"),
        (
            ["--heal", "--audit-only", "--kubeconfig", "k"],
            "--heal changes objects and --audit-only nothing: leave one out",
        ),
        (["--rules", "/nowhere/rules.yaml"], "--rules /nowhere/rules.yaml: No such file"),
        (["--rules", "configmap:a"], "--rules configmap:... needs a cluster: give --kubeconfig"),
        (["--rules", "configmap:A"], "write configmap:NAME or configmap:NAMESPACE/NAME"),
        (["--watch", "pods"], "--watch needs a cluster: give --kubeconfig"),
        (["--ops-auth", "kubernetes"], "--ops-auth kubernetes asks a cluster: give --kubeconfig"),
        (["--ops-auth", "none"], "it is loopback, kubernetes or token-file=FILE"),
        (["--ops-auth", "token-file="], "it is loopback, kubernetes or token-file=FILE"),
        (["--ops-auth", "token-file=/nowhere/token"], "/nowhere/token: No such file"),
        (["--object-metrics", "10"], "--object-metrics shows what is watched: give --watch"),
        (
            ["--watch", "deployments", "--kubeconfig", "none"],
            "--watch 'deployments': it has a group; write deployments.apps",
        ),
        (["--audit"], "No such option"),
        (["please"], "unexpected extra argument"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_flag_that_cannot_be_is_refused_with_the_reason(arguments, told, tmp_path):
    if "--cert-dir" not in arguments and "--tls-cert-file" not in arguments:
        arguments = [*arguments, "--cert-dir", str(tmp_path)]
    result = serve(*arguments)
    assert result.exit_code == 2
    assert told in " ".join(result.stderr.split())


@pytest.mark.parametrize(("is_installed", "module"), [(True, "uvloop"), (False, "asyncio")])
def test_uvloop_is_used_where_it_is_installed(is_installed, module, monkeypatch):
    if not is_installed:
        monkeypatch.setitem(sys.modules, "uvloop", None)
    loop = new_event_loop()
    loop.close()
    assert type(loop).__module__.partition(".")[0] == module


def without(path: str) -> dict[str, Any]:
    """The definition, less one field."""
    copy: dict[str, Any] = yaml.safe_load(yaml.safe_dump(DEFINITION))
    *parents, last = path.split(".")
    target = copy
    for key in parents:
        target = target[key]
    del target[last]
    return copy


BAD_CRDS = [
    ("kind: [", "neither JSON nor YAML at line"),
    ("a: 1\nb: }\n", "neither JSON nor YAML at line 2"),
    ("\x00\x01", "neither JSON nor YAML"),
    ("just text", "a text where an object is expected at line 1"),
    ("kind: Pod", "expected CustomResourceDefinition, found Pod"),
    ("a: 1", "expected CustomResourceDefinition, found None"),
    ("kind: List\nitems: [{kind: Secret}]", "expected CustomResourceDefinition, found Secret"),
    ("kind: List\nitems: [5]", "a number as item 0 where an object is expected at line 1"),
    (yaml.safe_dump(without("metadata.name")), "metadata.name is missing"),
    (yaml.safe_dump(without("spec.group")), "spec.group is missing"),
    (yaml.safe_dump(without("spec.versions")), "spec.versions must be a list"),
]


@pytest.mark.parametrize(("text", "told"), BAD_CRDS, ids=[row[1] for row in BAD_CRDS])
@pytest.mark.parametrize("verb", ["serve", "replay"])
def test_a_bad_file_of_definitions_is_told_with_its_name(tmp_path, text, told, verb):
    path = tmp_path / "crds.yaml"
    path.write_text(text)
    rest = ["--cert-dir", str(tmp_path)] if verb == "serve" else ["-"]
    result = CliRunner().invoke(main, [verb, "--crds", str(path), *rest], input="")
    assert result.exit_code == 2
    assert f"--crds {path}: " in result.stderr
    assert told in result.stderr


def test_a_file_of_definitions_that_is_missing_or_a_folder_is_told(tmp_path):
    missing = serve("--crds", tmp_path / "missing", "--cert-dir", tmp_path)
    assert f"--crds {tmp_path}/missing: No such file or directory" in missing.stderr
    folder = serve("--crds", tmp_path, "--cert-dir", tmp_path)
    assert folder.exit_code == 2
    assert "is a directory" in folder.stderr.lower()


def test_a_certificate_that_cannot_be_used_is_told(tmp_path):
    for name in ("tls.crt", "tls.key"):
        (tmp_path / name).write_text("canary-7f3a")
    result = serve(
        "--tls-cert-file", tmp_path / "tls.crt", "--tls-private-key-file", tmp_path / "tls.key"
    )
    assert result.exit_code == 1
    assert str(tmp_path / "tls.crt") in result.stderr
    assert "canary" not in result.stderr


def test_a_recording_that_cannot_be_written_is_told(tmp_path):
    result = serve("--record", tmp_path / "no" / "file", "--cert-dir", tmp_path)
    assert result.exit_code == 1
    assert "No such file or directory; --record needs a folder that is there" in result.stderr
    assert f"{tmp_path}/no/file" in result.stderr


def test_definitions_of_any_shape_are_read(tmp_path):
    """Several documents, a List and an empty document in one file; the flag after it is wrong."""
    path = tmp_path / "crds.yaml"
    documents = [DEFINITION, {"kind": "List", "items": [DEFINITION]}, None]
    path.write_text(yaml.safe_dump_all(documents))
    result = serve("--crds", path, "--flip-status", "deployments.apps", "--cert-dir", tmp_path)
    assert "--flip-status deployments.apps" in result.stderr
    write_lines(path, {"kind": "List", "items": [DEFINITION]})
    assert serve("--crds", path, "--flip-status", "deployments.apps").exit_code == 2

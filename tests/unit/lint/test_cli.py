"""`genguard lint`: files in, findings out, an exit code for CI."""

import json
import shutil
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from certs import ensure, service_names
from tests.controlplane.build import binary
from tests.unit.lint.samples import definition
from tests.unit.lint.test_checks import configuration
from webhook.cli import main

REPOSITORY = Path(__file__).parents[3]
BAD = configuration("bad", {"sideEffects": "Some"})
SLOW = configuration("slow", {"timeoutSeconds": 20, "rule": {"resources": ["gadgets"]}})


def lint(*arguments: str | Path, stdin: str | None = None) -> Result:
    return CliRunner().invoke(main, ["lint", *map(str, arguments)], input=stdin)


def written(path: Path, *documents: object) -> Path:
    path.write_text(yaml.safe_dump_all(documents))
    return path


def test_json_is_one_object_a_line_and_an_error_fails(tmp_path):
    result = lint("-o", "json", written(tmp_path / "a.yaml", BAD, SLOW))
    assert result.exit_code == 1
    first, second, summary = map(json.loads, result.stdout.splitlines())
    assert first.keys() == {"type", "id", "severity", "webhook", "field", "message", "reason"}
    assert (first["type"], first["id"], first["severity"]) == ("lint", "side-effects", "error")
    assert (first["webhook"], first["field"]) == (
        "bad/sound.example.org", "webhooks[0].sideEffects"
    )  # fmt: skip
    assert second["id"] == "timeout-long"
    assert summary == {"type": "summary", "error": 1, "warning": 1, "info": 0}


WIDGETS = definition({"version": {"subresources": None}})


def test_a_line_about_a_definition_names_it_instead_of_a_webhook(tmp_path):
    result = lint("-o", "json", written(tmp_path / "a.yaml", WIDGETS, BAD))
    webhook, found, summary = map(json.loads, result.stdout.splitlines())
    assert webhook["webhook"] == "bad/sound.example.org"
    assert found.keys() == {"type", "id", "severity", "definition", "field", "message", "reason"}
    assert (found["id"], found["definition"]) == ("status-no-subresource", "widgets.example.org")
    assert summary == {"type": "summary", "error": 1, "warning": 1, "info": 0}


@pytest.mark.parametrize(
    ("fail_on", "code"), [("error", 0), ("warning", 1), ("info", 1), (None, 0)]
)
def test_what_fails_is_chosen(tmp_path, fail_on, code):
    flags = ["--fail-on", fail_on] if fail_on else []
    assert lint(*flags, written(tmp_path / "a.yaml", SLOW)).exit_code == code


def test_lists_standard_input_and_other_kinds(tmp_path):
    item = {key: value for key, value in BAD.items() if key != "kind"}
    as_list = {"kind": "MutatingWebhookConfigurationList", "items": [item]}
    assert lint("-", stdin=json.dumps(as_list)).exit_code == 1
    assert lint("-", stdin=json.dumps({"kind": "List", "items": [BAD]})).exit_code == 1
    other = {"kind": "Deployment", "metadata": {"name": "a"}}
    assert lint(written(tmp_path / "a.yaml", other, None, SLOW)).exit_code == 0


def test_a_service_of_another_file_is_known(tmp_path):
    hook = configuration("a", {"clientConfig": {"service": {"name": "s", "namespace": "a"}}})
    spec = {"ports": [{"port": 8443}]}
    service = {"kind": "Service", "metadata": {"name": "s", "namespace": "a"}, "spec": spec}
    files = written(tmp_path / "a.yaml", hook), written(tmp_path / "b.yaml", service)
    assert "has no port 443" in lint(*files).stdout


def test_files_or_the_cluster_of_the_current_context(tmp_path, monkeypatch):
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "missing"))
    assert lint().exit_code == 1
    assert lint("--kubeconfig", "x", written(tmp_path / "a.yaml", BAD)).exit_code == 2
    missing = lint("--kubeconfig", tmp_path / "missing")
    assert (missing.exit_code, "Error" in missing.stderr) == (1, True)
    assert lint(tmp_path / "missing").exit_code == 1


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    """A copy of manifests/ with a certificate in it, as `serve --cert-dir` makes one."""
    folder = tmp_path_factory.mktemp("repository")
    no_certificates = shutil.ignore_patterns("*.crt", "*.key")
    shutil.copytree(REPOSITORY / "manifests", folder / "manifests", ignore=no_certificates)
    names = service_names("genguard", "genguard-system")
    ensure(folder / "manifests" / "tls", names=names, at=datetime.now(UTC))
    return folder


@pytest.mark.slow  # make quick needs no Go: it would build kubectl
@pytest.mark.parametrize(
    "folder", ["base", "base/registrations", "overlays/audit-only", "overlays/enforce"]
)
def test_our_own_manifests_are_clean(repository, folder):
    command = [str(binary("kubectl")), "kustomize", str(repository / "manifests" / folder)]
    rendered = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    result = lint("-o", "json", "--fail-on", "info", "-", stdin=rendered.stdout)
    assert result.stdout.splitlines() == ['{"type":"summary","error":0,"warning":0,"info":0}']
    assert rendered.stdout.count("WebhookConfiguration") >= 3

"""Folders in the place of files: `-f` of status, wait and blame, files of lint."""

import json
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from tests.unit.cli.test_status_files import POD, WEB
from webhook.cli import files, main

HOOKS = {
    "apiVersion": "admissionregistration.k8s.io/v1",
    "kind": "MutatingWebhookConfiguration",
    "metadata": {"name": "hooks"},
    "webhooks": [],
}


def run(*words: object):
    return CliRunner().invoke(main, list(map(str, words)))


def named(result):
    return [json.loads(line)["name"] for line in result.stdout.splitlines()]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "b.yaml").write_text(yaml.safe_dump(WEB))
    (tmp_path / "a.json").write_text(json.dumps(POD))
    (tmp_path / "README.md").write_text("# not an object\n")
    (tmp_path / "below.yaml").mkdir()
    other = WEB | {"metadata": WEB["metadata"] | {"name": "below"}}
    (tmp_path / "below.yaml" / "c.yml").write_text(yaml.safe_dump(other))
    return tmp_path


def test_the_manifests_of_a_folder_are_read_in_order_of_their_names(folder):
    result = run("status", "-f", folder, "-o", "json")
    assert (named(result), result.exit_code) == (["web-1-x", "web"], 0)


def test_recursive_reads_the_folders_in_it_too(folder):
    result = run("status", "-R", "-f", folder, "-o", "json")
    assert named(result) == ["web-1-x", "web", "below"]


@pytest.mark.parametrize("words", [("status", "-f"), ("wait", "-f"), ("lint",)])
def test_a_folder_without_manifests_is_told_in_one_line(tmp_path, words):
    result = run(*words, tmp_path)
    assert result.exit_code == 1
    assert (
        f"{tmp_path}: no file of the folder ends in .json .yaml .yml, or give -R" in result.stderr
    )


def test_a_folder_of_audit_logs_is_read_the_oldest_first(tmp_path):
    for name in ("audit.log", "audit-2026-11-20T00-00-00.000.log", "notes.txt"):
        (tmp_path / name).touch()
    found = [
        Path(name).name for name in files.expand((str(tmp_path),), files.LOGS, recursive=False)
    ]
    assert found == ["audit-2026-11-20T00-00-00.000.log", "audit.log"]
    result = run("blame", "-f", tmp_path, "deploy/web")
    assert (result.exit_code, len(result.stderr.splitlines())) == (1, 1)


def test_lint_reads_a_folder_and_says_when_there_is_no_webhook_configuration(folder):
    result = run("lint", folder)
    assert (result.exit_code, result.stderr) == (
        0,
        f"No webhook configuration or CustomResourceDefinition found in {folder}.\n",
    )
    (folder / "hooks.json").write_text(json.dumps(HOOKS))
    assert run("lint", folder).stderr == ""

"""The tests of the kopf operator, which runs as `kopf run` starts it."""

import json
from pathlib import Path

import pytest
from kopf.testing import KopfRunner

from genguard.testing import assert_converges, assert_no_loop

HERE = Path(__file__).parent
BACKUP = {
    "apiVersion": "example.org/v1",
    "kind": "Backup",
    "metadata": {"name": "nightly"},
    "spec": {"volume": "data"},
}


@pytest.fixture
def server(fake_api_server):
    fake_api_server.define(HERE / "crd.yaml")
    return fake_api_server


@pytest.fixture
def operator(server, tmp_path, monkeypatch):
    """The operator, with a kubeconfig that leads to the server; `with operator:` runs it."""
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(json.dumps(server.kubeconfig("backup-operator")))
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
    return KopfRunner(["run", "-A", "--standalone", str(HERE / "backup_operator.py")])


def test_it_makes_each_backup_once_and_comes_to_an_end(server, operator):
    with operator:
        server.create(BACKUP)
        assert_converges(server, "backups.example.org", "nightly")
        server.patch("backups.example.org", "nightly", {"metadata": {"labels": {"team": "shop"}}})
        server.patch("backups.example.org", "nightly", {"spec": {"volume": "more"}})
        assert_converges(server, "backups.example.org", "nightly")
    assert server.get("backups.example.org", "nightly")["status"]["observedGeneration"] == 2
    assert_no_loop(server)
    assert operator.output.count("copied data") == 1
    assert operator.output.count("copied more") == 1

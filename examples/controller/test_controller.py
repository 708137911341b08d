"""The tests of a controller, against an API server in memory that counts generation."""

from pathlib import Path

import kubernetes
import pytest
from controller import reconcile

from genguard.testing import assert_converges, assert_no_loop

BACKUP = {
    "apiVersion": "example.org/v1",
    "kind": "Backup",
    "metadata": {"name": "nightly"},
    "spec": {"volume": "data"},
}


@pytest.fixture
def server(fake_api_server):
    fake_api_server.define(Path(__file__).with_name("crd.yaml"))
    fake_api_server.create(BACKUP)
    return fake_api_server


@pytest.fixture
def copied():
    return []


@pytest.fixture
def run(server, copied):
    """Call the controller once, as a user of its own."""
    client = kubernetes.config.new_client_from_config_dict(server.kubeconfig("backup-operator"))
    with client:
        api = kubernetes.client.CustomObjectsApi(client)
        yield lambda: reconcile(api, "nightly", copied.append)


def test_a_new_backup_is_made_and_reported(server, run, copied):
    assert_converges(server, "backups.example.org", "nightly", step=run)
    assert copied == ["data"]
    assert server.get("backups.example.org", "nightly")["status"]["observedGeneration"] == 1


def test_a_label_is_no_reason_to_make_it_again(server, run, copied):
    run()
    server.patch("backups.example.org", "nightly", {"metadata": {"labels": {"team": "shop"}}})
    run()
    assert copied == ["data"]


def test_another_volume_is_a_new_generation(server, run, copied):
    run()
    changed = server.patch("backups.example.org", "nightly", {"spec": {"volume": "more"}})
    assert changed["metadata"]["generation"] == 2
    assert_converges(server, "backups.example.org", "nightly", step=run)
    assert copied == ["data", "more"]


def test_it_fights_with_nobody(server, run):
    for volume in ("data", "more", "data", "more"):
        server.patch("backups.example.org", "nightly", {"spec": {"volume": volume}})
        run()
    assert_no_loop(server)

"""The tests of a controller, with generations as the API server counts them."""

import pytest

from examples.controller.controller import reconcile
from examples.controller.fake_cluster import FakeCluster


@pytest.fixture
def cluster():
    found = FakeCluster()
    found.create("nightly", {"volume": "data"})
    return found


@pytest.fixture
def copied():
    return []


def test_a_new_backup_is_made_and_reported(cluster, copied):
    reconcile(cluster, "nightly", copied.append)
    assert copied == ["data"]
    assert cluster.get("nightly")["status"]["observedGeneration"] == 1


def test_its_own_status_is_no_reason_to_make_it_again(cluster, copied):
    reconcile(cluster, "nightly", copied.append)
    reconcile(cluster, "nightly", copied.append)
    assert copied == ["data"]
    assert cluster.get("nightly")["metadata"]["generation"] == 1


def test_a_label_is_no_reason_to_make_it_again(cluster, copied):
    reconcile(cluster, "nightly", copied.append)
    labelled = cluster.get("nightly")
    labelled["metadata"]["labels"] = {"team": "shop"}
    cluster.update(labelled)
    reconcile(cluster, "nightly", copied.append)
    assert copied == ["data"]


def test_another_volume_is_a_new_generation(cluster, copied):
    reconcile(cluster, "nightly", copied.append)
    changed = cluster.get("nightly")
    changed["spec"]["volume"] = "more"
    cluster.update(changed)
    assert cluster.get("nightly")["metadata"]["generation"] == 2
    reconcile(cluster, "nightly", copied.append)
    assert copied == ["data", "more"]
    assert cluster.get("nightly")["status"]["observedGeneration"] == 2

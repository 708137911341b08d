"""`serve --watch` against a real API server: the rights it needs, long lists, and late kinds."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.controlplane.client import wait_until
from tests.controlplane.fixtures import NamespaceFactory
from tests.controlplane.plane import ControlPlane
from tests.e2e.account import account
from tests.e2e.custom import served
from tests.e2e.genguard import ROOT, Genguard

CURRENT = "genguard_watch_current"
OBJECTS = "genguard_terminating_replicas_objects"


@pytest.fixture(scope="module")
def installed(apiserver: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The identity and rights of an installation; gives the kubeconfig of its service account."""
    path = tmp_path_factory.mktemp("watching") / "kubeconfig"
    with account(apiserver, "genguard-watching", path):
        yield path


def watched() -> str:
    """The flag of an installation."""
    found = yaml.safe_load((ROOT / "manifests/base/server/deployment.yaml").read_text())
    (container,) = found["spec"]["template"]["spec"]["containers"]
    (flag,) = (one for one in container["args"] if one.startswith("--watch="))
    return str(flag)


def test_the_rights_of_an_installation_are_enough_for_what_it_watches(installed: Path) -> None:
    with Genguard(f"--kubeconfig={installed}", watched()) as guard:
        count = watched().count(",") + 1
        wait_until(lambda: guard.metric(CURRENT) == count, what="every watch")
        lost = [one["resource"] for one in guard.log_lines("objects not watched")]
        # Of the custom resources of other tests it may read none.
        assert not any(one in watched() or "." not in one for one in lost)


def test_without_a_right_the_log_says_which_and_the_other_watches_work(installed: Path) -> None:
    with Genguard(f"--kubeconfig={installed}", "--watch=secrets,pods") as guard:
        wait_until(lambda: guard.metric(CURRENT, resource="pods"), what="the watch of pods")
        (line, *_) = wait_until(lambda: guard.log_lines("objects not watched"))
        assert line["resource"] == "secrets"
        assert 'cannot list resource "secrets"' in line["reason"]
        assert guard.metric(CURRENT, resource="secrets") == 0
        assert guard.ops("/readyz")[0] == 200


def test_a_list_of_several_pages_is_seen_whole_and_followed(
    apiserver: ControlPlane, namespace: NamespaceFactory
) -> None:
    path = f"/apis/apps/v1/namespaces/{namespace(apiserver)}/replicasets"
    labels = {"app": "web"}
    template = {
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "c", "image": "image:1"}]},
    }
    spec = {"replicas": 0, "selector": {"matchLabels": labels}, "template": template}
    for number in range(600):
        apiserver.client.post(path, {"metadata": {"name": f"web-{number}"}, "spec": spec})
    flag = "--watch=pods,replicasets.apps"
    with Genguard(f"--kubeconfig={apiserver.kubeconfig}", flag, "--object-metrics=10") as guard:
        wait_until(lambda: guard.metric(OBJECTS, kind="ReplicaSet", status="absent") == 600)
        assert guard.metric("genguard_replicasets_without_series") == 590
        apiserver.client.delete(f"{path}/web-0")
        status = {"status": {"replicas": 0, "terminatingReplicas": 0}}
        apiserver.client.patch(f"{path}/web-1/status", status)
        wait_until(lambda: guard.metric(OBJECTS, kind="ReplicaSet", status="absent") == 598)
        assert guard.metric(OBJECTS, kind="ReplicaSet", status="agrees") == 1
    apiserver.client.delete(path)


def test_a_kind_that_is_defined_later_is_watched_then(
    apiserver: ControlPlane, namespace: NamespaceFactory
) -> None:
    name, group = namespace(apiserver), "late.genguard.io"
    with Genguard(f"--kubeconfig={apiserver.kubeconfig}", f"--watch=widgets.{group}") as guard:
        (line, *_) = wait_until(lambda: guard.log_lines("objects not watched"))
        assert line["reason"].endswith("(404)")
        with served(apiserver, name, status_subresource=True, group=group):
            wait_until(lambda: guard.metric(CURRENT, resource=f"widgets.{group}"))

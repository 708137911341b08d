"""`serve --watch` against a real API server: the rights it needs, long lists, and late kinds."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.controlplane.client import wait_until
from tests.controlplane.fixtures import NamespaceFactory
from tests.controlplane.granting import granted
from tests.controlplane.identities import Identity, kubeconfig
from tests.controlplane.plane import ControlPlane
from tests.e2e.custom import served
from tests.e2e.genguard import ROOT, Genguard
from tests.manifests_copied import with_component

CURRENT = "genguard_watch_current"
OBJECTS = "genguard_terminating_replicas_objects"
ACCOUNT = "/api/v1/namespaces/genguard-system/serviceaccounts/genguard"


@pytest.fixture(scope="module")
def installed(apiserver: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The identity and rights of manifests/watch; gives the kubeconfig of its service account."""
    folder = tmp_path_factory.mktemp("watching")
    with granted(apiserver, with_component(apiserver, folder, "watch")):
        token = apiserver.client.post(f"{ACCOUNT}/token", {"spec": {}}).body["status"]["token"]
        identity = Identity("genguard", "genguard", token=token)
        ca = apiserver.authority.pair.certificate
        path = folder / "kubeconfig"
        path.write_text(kubeconfig(apiserver.server, ca, identity))
        yield path


def watched() -> str:
    """The flag of the component."""
    (patch,) = (
        one["patch"]
        for one in yaml.safe_load((ROOT / "manifests/watch/kustomization.yaml").read_text())[
            "patches"
        ]
        if one["target"]["kind"] == "Deployment"
    )
    flag: str = yaml.safe_load(patch)[0]["value"]
    return flag


def test_the_rights_of_the_component_are_enough_for_what_it_watches(installed: Path) -> None:
    with Genguard(f"--kubeconfig={installed}", watched()) as guard:
        count = watched().count(",") + 1
        assert count == 6
        wait_until(lambda: guard.metric(CURRENT) == count, what="every watch")
        assert not guard.log_lines("objects not watched")


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

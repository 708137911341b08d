"""Objects that an API server stores and that are nested too deep to decode.

Each verb says so of the object, and answers for all others; the server's watches go on.
"""

import asyncio
import json
from collections.abc import Iterator

import pytest

from genguard.detection.finding import FoundObject
from tests.controlplane.client import wait_until
from tests.controlplane.fixtures import NamespaceFactory
from tests.controlplane.plane import ControlPlane
from tests.e2e.culprits import deployment
from tests.e2e.custom import definition, served
from tests.e2e.deep_objects import create_deep
from tests.e2e.genguard import Genguard
from tests.e2e.verbs import run
from webhook.cluster.connection import connected
from webhook.cluster.rest import Rest
from webhook.cluster.stored_objects import StoredObjects

NESTED_PROPERTIES = 600
DEPLOYMENTS = "/apis/apps/v1/namespaces/{}/deployments"
DONE = {
    "observedGeneration": 1,
    "conditions": [
        {"type": "Available", "status": "True"},
        {"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable"},
    ],
    **dict.fromkeys(("replicas", "updatedReplicas", "readyReplicas", "availableReplicas"), 2),
}


@pytest.fixture(scope="module")
def shop(apiserver: ControlPlane) -> str:
    """A namespace with a Deployment that is done, and one that cannot be decoded."""
    name = "unreadable"
    apiserver.client.post("/api/v1/namespaces", {"metadata": {"name": name}})
    path = DEPLOYMENTS.format(name)
    apiserver.client.post(path, deployment("well"))
    apiserver.client.patch(f"{path}/well/status", {"status": DONE})
    create_deep(
        apiserver, {"apiVersion": "apps/v1", "kind": "Deployment", **deployment("deep")}, name
    )
    return name


def test_status_answers_for_every_other_object(apiserver: ControlPlane, shop: str) -> None:
    done = run(apiserver, "status", "deployments", "-n", shop, "-o", "json", code=1)
    lines = {one["name"]: one for one in map(json.loads, done.out.splitlines())}
    assert (lines["well"]["ready"], lines["well"]["health"]) == (True, "Green")
    assert lines["deep"]["ready"] is False
    assert lines["deep"]["reasons"][0].startswith("status unreadable")


def test_status_of_everything_shows_it(apiserver: ControlPlane, shop: str) -> None:
    out = run(apiserver, "status", "-A", code=1).out
    assert "status unreadable, want an object: the object is nested deeper than" in out
    assert "well" in out


def test_wait_reaches_what_can_be_read(apiserver: ControlPlane, shop: str) -> None:
    assert "reached" in run(apiserver, "wait", "deploy/well", "-n", shop, "--timeout=2m").out
    done = run(apiserver, "wait", "deploy/deep", "-n", shop, "--timeout=2s", code=3)
    assert "status unreadable" in done.out


def test_blame_says_that_it_is_unreadable(apiserver: ControlPlane, shop: str) -> None:
    done = run(apiserver, "blame", "deploy/deep", "-n", shop, code=1)
    assert "deployments/deep cannot be read: it is nested too deep" in done.err
    assert "spec.replicas" in run(apiserver, "blame", "deploy/well", "-n", shop).out


def test_an_alert_about_it_finds_that_it_exists(apiserver: ControlPlane, shop: str) -> None:
    path = "jsonpath={.metadata.uid}"
    uid = apiserver.kubectl("get", "deploy", "deep", "-n", shop, "-o", path).stdout

    async def exists(uid: str) -> bool | None:
        async with connected(str(apiserver.kubeconfig)) as api:
            thing = FoundObject("apps", "v1", "deployments", shop, "deep", uid)
            return await StoredObjects(Rest(api)).exists(thing)

    assert asyncio.run(exists(uid)) is True
    assert asyncio.run(exists("another")) is False


@pytest.fixture(scope="module")
def nested_definition(apiserver: ControlPlane) -> Iterator[None]:
    """A CustomResourceDefinition with NESTED_PROPERTIES properties within each other."""
    start, end = '{"type":"object","properties":{"a":', "}}"
    schema = start * NESTED_PROPERTIES + '{"type":"object"}' + end * NESTED_PROPERTIES
    deep = {"type": "object", "properties": {"spec": "DEEP"}}
    body = definition("nested.genguard.io", "nests", "Nest", deep, status=False)
    text = json.dumps(body).replace('"DEEP"', schema)
    apiserver.kubectl("create", "--validate=false", "-f", "-", stdin=text)
    yield
    apiserver.kubectl("delete", "crd", body["metadata"]["name"])


@pytest.mark.usefixtures("nested_definition")
def test_the_server_learns_and_watches_everything_else(
    apiserver: ControlPlane, shop: str, namespace: NamespaceFactory
) -> None:
    where = namespace(apiserver)
    with (
        served(apiserver, where, status_subresource=True) as custom,
        Genguard(f"--kubeconfig={apiserver.kubeconfig}", "--watch=deployments.apps") as guard,
    ):
        (line,) = wait_until(lambda: guard.log_lines("cluster connected"))
        assert line["customResources"] >= 2, custom
        wait_until(lambda: guard.metric("genguard_watch_current") == 1, what="the watch")
        assert guard.metric("genguard_left_out_total", what="unreadable objects") >= 1
        assert tracked(guard, shop) == {"well"}
        # And it goes on: with changes, and with another such object among them.
        late = {"apiVersion": "apps/v1", "kind": "Deployment", **deployment("late-deep")}
        create_deep(apiserver, late, where)
        apiserver.client.post(DEPLOYMENTS.format(where), deployment("late"))
        wait_until(lambda: tracked(guard, where) == {"late"}, what="the later Deployment")
        assert guard.metric("genguard_watch_current") == 1
        assert guard.metric("genguard_task_failures_total") == 0
        assert not guard.log_lines("task failed")


def tracked(guard: Genguard, namespace: str) -> set[str]:
    status, text = guard.ops(f"/api/objects?namespace={namespace}")
    assert status == 200
    return {one["name"] for one in json.loads(text)["objects"]}

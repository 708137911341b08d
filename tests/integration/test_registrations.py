"""The registrations that a server keeps, against a GitOps tool on a real API server.

The clock of the server runs faster, so that its minutes take seconds.
"""

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from datetime import UTC, datetime
from typing import Any

import pytest

from genguard.admission.matching import Writes, may_match
from genguard.detection.mutators import Mutators
from genguard.linting.checks.order import registrations_reverted
from genguard.linting.lint import lint
from tests.controlplane.client import Client, wait_until
from tests.controlplane.plane import ControlPlane
from tests.unit.cluster.objects import Leads
from tests.unit.manifest_files import registrations
from webhook.cluster.connection import connected
from webhook.cluster.reconcile import Reconciler
from webhook.cluster.registrations import Follower
from webhook.cluster.rest import Rest
from webhook.manifest.documents import path_of
from webhook.tasks.supervisor import Supervisor

_FASTER = 60.0
_TOOL = "argocd-controller"
_STATUS = Writes("apps", "deployments/status", "UPDATE")
Json = dict[str, Any]


@pytest.fixture
def whole(apiserver: ControlPlane) -> Iterator[dict[str, Json]]:
    """The registrations as the manifests have them, limited to a namespace that is not there."""
    found = {}
    for phase, one in registrations().items():
        body = deepcopy(one)
        for hook in body["webhooks"]:
            path = hook["clientConfig"]["service"]["path"]
            hook["clientConfig"] = {"url": f"https://127.0.0.1:1{path}"}
            hook["namespaceSelector"] = {"matchLabels": {"kubernetes.io/metadata.name": "nowhere"}}
        found[phase] = body
        apiserver.client.post(path_of(body).rpartition("/")[0], body)
    yield found
    for one in found.values():
        apiserver.client.delete(path_of(one))


@contextmanager
def following(plane: ControlPlane) -> Iterator[Follower]:
    """A leader that keeps them, in a thread."""
    made: list[Follower] = []
    ends = threading.Event()

    async def run() -> None:
        async with connected(str(plane.kubeconfig)) as api:
            mutators = Mutators()
            mutators.learn((), ())
            made.append(
                Follower(
                    Rest(api),
                    mutators,
                    Leads(is_leader=True),
                    enforcing=False,
                    refused=lambda _: False,
                    clock=lambda: time.monotonic() * _FASTER,
                )
            )
            loop = Reconciler("registrations", made[0].step)
            async with loop.running(Supervisor()):
                while not ends.is_set():
                    loop.wake()  # as the watch does at each change
                    await asyncio.sleep(0.1)

    thread = threading.Thread(target=lambda: asyncio.run(run()))
    thread.start()
    try:
        wait_until(lambda: bool(made), what="a follower")
        yield made[0]
    finally:
        ends.set()
        thread.join()


def apply_whole(client: Client, body: Json) -> None:
    """What a GitOps tool does: server-side apply of its manifest, by force."""
    client.patch(
        path_of(body),
        body,
        content_type="application/apply-patch+yaml",
        params={"fieldManager": _TOOL, "force": "true"},
    )


def narrowed(client: Client, one: Json) -> bool:
    return not may_match(client.get(path_of(one)).body["webhooks"][0]["rules"], _STATUS)


def test_a_tool_that_writes_the_rules_back_is_named_and_nothing_oscillates(
    apiserver: ControlPlane, whole: dict[str, Json]
) -> None:
    client, mutating = apiserver.client, [whole["intent"], whole["mutate"]]
    with following(apiserver) as follower:
        rounds = 0
        quiet_since = time.monotonic()
        while time.monotonic() - quiet_since < 5:  # five minutes by the server's clock
            if all(narrowed(client, one) for one in mutating):
                rounds += 1
                for one in mutating:
                    apply_whole(client, one)
                wait_until(lambda: follower.registered.reverted_by == _TOOL, what="it is named")
                quiet_since = time.monotonic()
            time.sleep(0.05)
        live = [client.get(path_of(one)).body for one in mutating]
        found = lint(live, at=datetime.now(UTC), live=True, checks=(registrations_reverted,))
        assert rounds == 1
        assert len(found) == 2
        assert all(f"are written by {_TOOL} too" in one.message for one in found)
        assert not any(narrowed(client, one) for one in mutating)

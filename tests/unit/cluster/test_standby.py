"""Who is active: when a standby takes over, which pod has the label, and when nothing changes."""

import asyncio
import copy
from typing import Any

import pytest

from tests.unit.cluster.test_lease import Api as Leases
from webhook.cluster import standby
from webhook.cluster.lease import LEASE_SECONDS, TICK_SECONDS
from webhook.cluster.rest import RefusedError
from webhook.cluster.standby import ACTIVE, Pod, StandbyElection, read_pod

PODS = "/api/v1/namespaces/genguard-system/pods"


class Cluster:
    """A Lease and pods; a replica sees the pods as they are when it is `shown` them."""

    def __init__(self, *names: str, all_answer: bool = False) -> None:
        self.now = 0.0
        self._all_answer = all_answer
        self.leases = Leases()
        self.pods = {name: {"metadata": {"name": name, "labels": {}}} for name in names}
        self.is_away = False
        self.patches: list[tuple[str, str | None]] = []
        self.each = {name: self._replica(name) for name in names}
        for name in names:
            self.tell_ready(name, is_ready=True)

    def _replica(self, name: str) -> StandbyElection:
        return StandbyElection(
            self,  # type: ignore[arg-type]
            "genguard-system",
            "genguard",
            f"{name}_0a1b",
            lambda: self.now,
            all_answer=self._all_answer,
        )

    async def call(self, method: str, path: str, body: Any = None, **_: Any) -> Any:
        if self.is_away:
            raise OSError("no route")
        if not path.startswith(PODS):
            return await self.leases.call(method, path, body)
        name = path.rpartition("/")[2]
        if name not in self.pods:
            raise RefusedError(404, "gone")
        ((label, value),) = body["metadata"]["labels"].items()
        assert (method, label) == ("PATCH", ACTIVE)
        self.patches.append((name, value))
        self.pods[name]["metadata"]["labels"][label] = value
        return self.pods[name]

    async def list_all(self, path: str, *_: Any, **__: str) -> Any:
        assert path == PODS
        if self.is_away:
            raise OSError("no route")
        return copy.deepcopy(list(self.pods.values()))

    def tell_ready(self, name: str, *, is_ready: bool) -> None:
        ready = {"type": "Ready", "status": str(is_ready)}
        self.pods[name]["status"] = {"conditions": [ready]}
        self.show()

    def show(self) -> None:
        """Let every replica see the pods."""
        for one in self.each.values():
            one.see(tuple(map(read_pod, self.pods.values())))

    async def tick(self, *names: str) -> None:
        for name in names:
            await self.each[name].tick()
        self.show()

    async def pass_time(self, seconds: float, *names: str) -> None:
        end = self.now + seconds
        while self.now < end:
            self.now += TICK_SECONDS
            await self.tick(*names)

    @property
    def leaders(self) -> list[str]:
        return [name for name, election in self.each.items() if election.is_leader]

    @property
    def active(self) -> list[str]:
        return [one.name for one in map(read_pod, self.pods.values()) if one.is_active]


async def started() -> Cluster:
    """Two of which a is active."""
    cluster = Cluster("a", "b")
    await cluster.tick("a", "b")
    assert (cluster.leaders, cluster.active) == (["a"], ["a"])
    return cluster


async def test_the_leader_alone_has_the_label_and_it_is_set_once():
    cluster = await started()
    await cluster.pass_time(60, "a", "b")
    assert cluster.patches == [("a", "true")]
    assert [election.active for election in cluster.each.values()] == ["a", "a"]


async def test_an_api_server_that_is_away_changes_nothing():
    cluster = await started()
    cluster.is_away = True
    await cluster.pass_time(60, "b", "a")
    assert (cluster.leaders, cluster.active) == ([], ["a"])
    cluster.is_away = False
    await cluster.tick("b")
    assert cluster.leaders == [], "the other one could not renew it either"
    await cluster.tick("a")
    await cluster.pass_time(10, "b", "a")
    assert (cluster.leaders, cluster.active) == (["a"], ["a"])


async def test_a_label_that_somebody_else_moves_is_moved_back():
    cluster = await started()
    cluster.pods["a"]["metadata"]["labels"] = {}
    cluster.pods["b"]["metadata"]["labels"] = {ACTIVE: "true"}
    cluster.show()
    await cluster.tick("b", "a")
    assert cluster.active == ["a"]


@pytest.mark.parametrize("end", ["deleted", "not ready", "gone"])
async def test_a_pod_that_ends_is_followed_at_once_and_leads_no_more(end):
    cluster = await started()
    cluster.each["b"]._taking._due.clear()
    if end == "deleted":
        cluster.pods["a"]["metadata"]["deletionTimestamp"] = "2026-05-01T00:00:00Z"
    elif end == "not ready":
        cluster.tell_ready("a", is_ready=False)
    else:
        del cluster.pods["a"]
    cluster.show()
    assert cluster.each["b"]._taking._due.is_set(), "it does not wait for the next tick"
    await cluster.tick("b")
    assert cluster.active == ["b"]
    assert cluster.patches[1:] == [("b", "true"), *([("a", None)] * (end != "gone"))]
    await cluster.tick("a")
    assert cluster.leaders == ["b"], "who sees that another one holds the Lease stops at once"
    await cluster.pass_time(60, "a", "b")
    assert cluster.active == ["b"]


class Connections:
    """In place of `connects`: what each pod says to who connects to it; unknown pods are silent."""

    def __init__(self, cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
        self.said: dict[str, bool | None] = {}
        ports = [{"name": "webhook", "containerPort": 8443}]
        for name, pod in cluster.pods.items():
            pod["spec"] = {"containers": [{"ports": ports}]}
            pod["status"]["podIP"] = name
        cluster.show()
        self._cluster = cluster

        async def connects(host: str, port: int) -> bool | None:
            assert port == 8443
            return self.said.get(host)

        monkeypatch.setattr(standby, "connects", connects)

    async def made_by(self, own: str, **said: bool | None) -> None:
        self.said |= said
        seen = self._cluster.each[own]
        for one in seen._seen_pods:
            await seen.connect(one)


async def test_a_process_that_ends_is_followed_before_its_pod_says_so(monkeypatch):
    cluster = await started()
    connections, changed = Connections(cluster, monkeypatch), cluster.each["b"]._taking._due
    await connections.made_by("b", a=False)
    await cluster.tick("b")
    assert cluster.active == ["a"], (
        "a port that refused from the start says nothing: a firewall may"
    )
    await connections.made_by("b", a=True)
    await connections.made_by("b", a=None)
    await cluster.tick("b")
    assert cluster.active == ["a"], "who does not answer may be cut off from this pod alone"
    changed.clear()
    await connections.made_by("b", a=False)
    assert changed.is_set(), "it does not wait for the next tick"
    await cluster.tick("b")
    assert (cluster.leaders, cluster.active) == (["a", "b"], ["b"])


async def all_answer() -> Cluster:
    """Three that share a store, of which a leads."""
    cluster = Cluster("a", "b", "c", all_answer=True)
    await cluster.tick("a", "b", "c")
    assert (cluster.leaders, cluster.active) == (["a"], ["a", "b", "c"])
    return cluster


@pytest.mark.parametrize("said", [None, False], ids=["its node vanishes", "its process ends"])
async def test_with_a_shared_store_all_are_behind_the_service_but_who_is_not_reached(
    said, monkeypatch, caplog
):
    caplog.set_level("INFO")
    cluster = await all_answer()
    connections, pods = Connections(cluster, monkeypatch), cluster.each["a"]
    await connections.made_by("a", b=True, c=said)
    await cluster.tick("a")
    assert cluster.active == ["a", "b", "c"], "c was never reached: a firewall may refuse it"
    await connections.made_by("a", c=True)
    await connections.made_by("a", c=said)
    assert pods._taking._due.is_set()
    await cluster.tick("a", "b", "c")
    assert cluster.active == ["a", "b"]
    await connections.made_by("a", c=True)
    await cluster.tick("a")
    assert cluster.active == ["a", "b", "c"]
    logged = [one.message for one in caplog.records if one.message.startswith("replica")]
    assert logged == [
        *["replica added to the Service"] * 3,
        "replica removed from the Service",
        "replica added to the Service",
    ]


async def test_a_leader_that_reaches_hardly_anybody_takes_nobody_from_the_service(monkeypatch):
    cluster = await all_answer()
    connections = Connections(cluster, monkeypatch)
    await connections.made_by("a", b=True, c=True)
    await connections.made_by("a", b=None, c=None)
    await cluster.tick("a")
    assert cluster.active == ["a", "b", "c"], "it may be cut off itself"
    await connections.made_by("a", b=False)
    await cluster.tick("a")
    assert cluster.active == ["a"], "a process that has ended is none"


async def test_what_connecting_to_a_pod_says():
    connected = asyncio.Event()

    def close(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connected.set()
        writer.close()

    server = await asyncio.start_server(close, "127.0.0.1")
    address = server.sockets[0].getsockname()
    assert await standby.connects(*address), "what closes connections may be alive"
    assert connected.is_set()
    server.close()
    assert await standby.connects(*address) is False


async def test_a_node_that_vanishes_is_followed_when_the_lease_has_run_out():
    cluster = await started()
    await cluster.pass_time(LEASE_SECONDS - TICK_SECONDS, "b")
    assert cluster.active == ["a"]
    await cluster.pass_time(2 * TICK_SECONDS, "b")
    assert cluster.active == ["b"], "its pod still says that it is ready, and loses the label"
    await cluster.pass_time(60, "a", "b")
    assert cluster.leaders == ["b"]


async def test_what_a_watch_showed_long_ago_is_read_again_before_anything_is_taken():
    cluster = await started()
    await cluster.tick("a")
    cluster.each["b"].see((Pod("b", can_answer=True, is_active=False),))
    await cluster.each["b"].tick()
    assert cluster.leaders == ["a"]


async def test_clients_stay_for_a_while_without_the_api_server_and_not_once_another_leads():
    cluster = await started()
    a, b = cluster.each.values()
    assert (a.keeps_clients, b.keeps_clients) == (True, False)
    cluster.is_away = True
    await cluster.pass_time(10, "a")
    assert (a.is_leader, a.keeps_clients) == (False, True)
    await cluster.pass_time(30, "a")
    assert not a.keeps_clients, "another pod may be active, that this one cannot know of"
    cluster.is_away = False
    await cluster.pass_time(LEASE_SECONDS + 2 * TICK_SECONDS, "b")
    assert b.keeps_clients
    await cluster.tick("a")
    assert (a.keeps_clients, cluster.active) == (False, ["b"])


async def test_a_pod_that_just_starts_leaves_what_is_free_to_one_that_is_ready():
    cluster = await started()
    cluster.tell_ready("b", is_ready=False)
    cluster.pods["c"] = {"metadata": {"name": "c", "labels": {}}}
    cluster.each["c"] = cluster._replica("c")
    cluster.tell_ready("c", is_ready=True)
    await cluster.each["a"].release()
    del cluster.pods["a"]
    cluster.show()
    await cluster.tick("b", "c")
    assert cluster.active == ["c"]

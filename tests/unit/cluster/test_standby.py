"""Who is active: when a standby takes over, which pod has the label, and when nothing changes."""

import asyncio
import copy
from typing import Any

import pytest

from tests.unit.cluster.test_lease import Api as Leases
from webhook.cluster import standby
from webhook.cluster.lease import LEASE_SECONDS, LeaseElection
from webhook.cluster.rest import RefusedError
from webhook.cluster.standby import ACTIVE, Pod, Pods, StandbyElection, is_over, leaves, read_pod
from webhook.election.leader import TICK_SECONDS

PODS = "/api/v1/namespaces/genguard-system/pods"


def pods(text: str) -> list[Pod]:
    """Pods by name; those in brackets cannot answer."""
    return [Pod(one.strip("()"), "(" not in one, is_active=False) for one in text.split()]


@pytest.mark.parametrize(
    ("seen", "holder", "takes", "because"),
    [
        ("me it", "it", False, "both can answer: the lead is never exchanged for nothing"),
        ("me (it)", "it", True, "it is being deleted, or not ready"),
        ("me", "it", True, "it is gone"),
        ("(me) (it)", "it", False, "I answer nobody either"),
        ("(me)", "it", False, "the same: what is gone has left the Lease to whoever starts first"),
        ("", "it", False, "I do not know the pods yet"),
        ("me (it) other", "it", True, "another one may as well: the Lease decides"),
        ("(me)", "me", True, "the process before this one, in the same pod"),
        ("me", "me", True, "the same, before the kubelet has noticed"),
        ("(me) other", "me", False, "the other one can answer already"),
    ],
)
def test_a_lease_that_has_not_run_out(seen, holder, takes, because):
    assert is_over(pods(seen), "me", holder) is takes, because


@pytest.mark.parametrize(
    ("seen", "holder", "left", "because"),
    [
        ("me it", "it", False, "I can answer"),
        ("(me) it", "it", False, "it has stopped to renew it, whatever its pod says"),
        ("(me) it other", "it", True, "the other one can answer, and I cannot"),
        ("(me) other", "", True, "the same where nobody holds it"),
        ("(me) (other)", "", False, "nobody can: the first one makes the certificate"),
        ("", "", False, "I do not know the pods yet"),
    ],
)
def test_a_lease_that_is_free(seen, holder, left, because):
    assert leaves(pods(seen), "me", holder) is left, because


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, Pod("a", can_answer=True, is_active=False)),
        ({"status": {}}, Pod("a", can_answer=False, is_active=False)),
        ({"status": None}, Pod("a", can_answer=False, is_active=False)),
        (
            {"status": {"conditions": [{"type": "Ready", "status": "False"}]}},
            Pod("a", can_answer=False, is_active=False),
        ),
        (
            {"metadata": {"name": "a", "deletionTimestamp": "2026-05-01T00:00:00Z"}},
            Pod("a", can_answer=False, is_active=False),
        ),
        (
            {"metadata": {"name": "a", "labels": {ACTIVE: "true"}}},
            Pod("a", can_answer=True, is_active=True),
        ),
        (
            {
                "spec": {"containers": [{"ports": [{"name": "webhook", "containerPort": 8443}]}]},
                "status": {"podIP": "10.0.0.7"},
            },
            Pod("a", can_answer=False, is_active=False, address=("10.0.0.7", 8443)),
        ),
    ],
)
def test_what_a_pod_says(changes, expected):
    ready = {"conditions": [{"type": "Ready", "status": "True"}]}
    assert read_pod({"metadata": {"name": "a"}, "status": ready} | changes) == expected


class Cluster:
    """A Lease and pods; a replica sees the pods as they are when it is `shown` them."""

    def __init__(self, *names: str) -> None:
        self.now = 0.0
        self.leases = Leases()
        self.pods = {name: {"metadata": {"name": name, "labels": {}}} for name in names}
        self.is_away = False
        self.patches: list[tuple[str, str | None]] = []
        self.each = {name: self._replica(name) for name in names}
        for name in names:
            self.tell_ready(name, is_ready=True)

    def _replica(self, name: str) -> tuple[StandbyElection, Pods]:
        seen = Pods(self, "genguard-system", name)  # type: ignore[arg-type]
        lease = LeaseElection(
            self, "genguard-system", "genguard", f"{name}_0a1b", lambda: self.now, succession=seen
        )
        return StandbyElection(lease, seen), seen

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

    async def get(self, path: str, **_: str) -> Any:
        assert path == PODS
        if self.is_away:
            raise OSError("no route")
        return {"items": copy.deepcopy(list(self.pods.values()))}

    def tell_ready(self, name: str, *, is_ready: bool) -> None:
        ready = {"type": "Ready", "status": str(is_ready)}
        self.pods[name]["status"] = {"conditions": [ready]}
        self.show()

    def show(self) -> None:
        """Let every replica see the pods."""
        for _, seen in self.each.values():
            seen._see(tuple(map(read_pod, self.pods.values())))

    async def tick(self, *names: str) -> None:
        for name in names:
            await self.each[name][0].tick()
        self.show()

    async def pass_time(self, seconds: float, *names: str) -> None:
        end = self.now + seconds
        while self.now < end:
            self.now += TICK_SECONDS
            await self.tick(*names)

    @property
    def leaders(self) -> list[str]:
        return [name for name, (election, _) in self.each.items() if election.is_leader]

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
    assert [election.active for election, _ in cluster.each.values()] == ["a", "a"]


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
    cluster.each["b"][1].changed.clear()
    if end == "deleted":
        cluster.pods["a"]["metadata"]["deletionTimestamp"] = "2026-05-01T00:00:00Z"
    elif end == "not ready":
        cluster.tell_ready("a", is_ready=False)
    else:
        del cluster.pods["a"]
    cluster.show()
    assert cluster.each["b"][1].changed.is_set(), "it does not wait for the next tick"
    await cluster.tick("b")
    assert cluster.active == ["b"]
    assert cluster.patches[1:] == [("b", "true"), *([("a", None)] * (end != "gone"))]
    await cluster.tick("a")
    assert cluster.leaders == ["b"], "who sees that another one holds the Lease stops at once"
    await cluster.pass_time(60, "a", "b")
    assert cluster.active == ["b"]


async def test_a_process_that_ends_is_followed_before_its_pod_says_so(monkeypatch):
    cluster = await started()

    async def outlive(host: str, port: int) -> bool:
        return (host, port) == ("10.0.0.7", 8443)

    monkeypatch.setattr(standby, "outlives", outlive)
    seen = cluster.each["b"][1]
    assert not await seen.see_end("a_0a1b"), "where its pod is, is not known"
    cluster.pods["a"]["spec"] = {
        "containers": [{"ports": [{"name": "webhook", "containerPort": 8443}]}]
    }
    cluster.pods["a"]["status"]["podIP"] = "10.0.0.7"
    cluster.show()
    assert await seen.see_end("a_ffff"), "another process in the same pod"
    await cluster.tick("b")
    assert cluster.active == ["a"]
    seen.changed.clear()
    assert await seen.see_end("a_0a1b")
    assert seen.changed.is_set(), "it does not wait for the next tick"
    await cluster.tick("b")
    assert (cluster.leaders, cluster.active) == (["a", "b"], ["b"])


async def test_a_process_has_ended_when_it_closes_a_connection_and_refuses_the_next():
    connected = asyncio.Event()

    def close(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connected.set()
        writer.close()

    server = await asyncio.start_server(close, "127.0.0.1")
    address = server.sockets[0].getsockname()
    waiting = asyncio.create_task(standby.outlives(*address))
    for _ in range(2):
        await asyncio.wait_for(connected.wait(), 30)
        connected.clear()
    assert not waiting.done(), "what closes connections may be alive"
    server.close()
    assert await asyncio.wait_for(waiting, 30)
    assert not await standby.outlives(*address), "a firewall that refuses all is no end"


async def test_a_leader_that_renews_in_the_same_moment_does_not_keep_it():
    cluster = await started()
    cluster.pods["a"]["metadata"]["deletionTimestamp"] = "2026-05-01T00:00:00Z"
    cluster.show()
    listed = cluster.get

    async def renewed_meanwhile(path: str, **asked: str) -> Any:
        cluster.get = listed  # type: ignore[method-assign]
        await cluster.each["a"][0].tick()
        return await listed(path, **asked)

    cluster.get = renewed_meanwhile  # type: ignore[method-assign]
    await cluster.each["b"][0].tick()
    assert cluster.active == ["b"]


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
    cluster.each["b"][1]._see((Pod("b", can_answer=True, is_active=False),))
    await cluster.each["b"][0].tick()
    assert cluster.leaders == ["a"]


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


async def test_clients_stay_for_a_while_without_the_api_server_and_not_once_another_leads():
    cluster = await started()
    a, b = (election for election, _ in cluster.each.values())
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
    await cluster.each["a"][0].release()
    del cluster.pods["a"]
    cluster.show()
    await cluster.tick("b", "c")
    assert cluster.active == ["c"]


async def test_a_label_that_cannot_be_set_is_told_once(caplog):
    cluster = Cluster("a")

    async def refuse(*_: Any, **__: Any) -> None:
        raise RefusedError(403, "no")

    cluster.each["a"][1]._label = refuse
    await cluster.pass_time(10, "a")
    assert [one.message for one in caplog.records] == ["active pod not labelled"]

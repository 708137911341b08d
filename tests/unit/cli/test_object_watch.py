"""What is asked for and all that it owns, kept as it is by watches."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from genguard.status.targets import WatchTarget
from tests.unit.cluster.store import Store, serving
from tests.unit.status.test_targets import DEPLOYMENTS, NODES, PODS, served
from webhook.cli.object_watch import ObjectWatch, Snapshot

REPLICA_SETS = served("apps", "replicasets", "ReplicaSet")
WIDGETS = served("example.org", "widgets", "Widget")
GADGETS = served("example.org", "gadgets", "Gadget")
KINDS = [PODS, NODES, DEPLOYMENTS, REPLICA_SETS, WIDGETS, GADGETS]
WEB = WatchTarget(DEPLOYMENTS, "n", "web")
PATHS = {one.resource: one.path("n") for one in KINDS}
APPS = {"apiVersion": "apps/v1"}


@pytest.fixture
async def store() -> Store:
    """A Deployment with a pod, and another with one of its own."""
    made = Store()
    for name in ("web", "api"):
        pod = f"{name}-1-x"
        await made.put(PATHS["pods"], pod, f"{name}-1", apiVersion="v1", kind="Pod")
        await made.put(PATHS["replicasets"], f"{name}-1", name, **APPS, kind="ReplicaSet")
        await made.put(PATHS["deployments"], name, **APPS, kind="Deployment")
    return made


@asynccontextmanager
async def followed(
    store: Store, *wanted: WatchTarget, told: list[str] | None = None
) -> AsyncIterator[ObjectWatch]:
    tell = (told if told is not None else []).append
    async with serving(store) as rest, ObjectWatch(rest, KINDS, wanted, tell) as objects:
        yield objects


async def look(objects: ObjectWatch) -> Snapshot:
    snapshot = await objects.next_snapshot(10)
    assert snapshot is not None
    return snapshot


def names(snapshot: Snapshot) -> list[str]:
    return [node.assessment.view.name for root in snapshot.roots for node in root.walk()]


async def test_the_first_sight_is_whole_and_of_nothing_else(store: Store) -> None:
    async with followed(store, WEB) as objects:
        snapshot = await look(objects)
        assert names(snapshot) == ["web", "web-1", "web-1-x"]
        assert snapshot.there == {WEB: frozenset({"web"})}


async def test_each_change_is_seen_and_what_is_gone_is_gone(store: Store) -> None:
    async with followed(store, WEB) as objects:
        await look(objects)
        await store.put(PATHS["pods"], "web-1-y", "web-1", apiVersion="v1", kind="Pod")
        assert names(await look(objects)) == ["web", "web-1", "web-1-x", "web-1-y"]
        await store.drop(PATHS["pods"], "web-1-x")
        assert names(await look(objects)) == ["web", "web-1", "web-1-y"]
        await store.drop(PATHS["deployments"], "web")
        snapshot = await look(objects)
        assert (names(snapshot), snapshot.there) == ([], {WEB: frozenset()})


async def test_until_all_is_listed_there_is_nothing_to_see(store: Store) -> None:
    store.silent = {PATHS["pods"]}
    async with followed(store, WEB) as objects:
        assert await objects.next_snapshot(0.3) is None


async def test_a_kind_below_that_may_not_be_read_is_told_and_left_out(store: Store) -> None:
    store.refused = {PATHS["pods"]}
    told: list[str] = []
    async with followed(store, WEB, told=told) as objects:
        snapshot = await look(objects)
        assert names(snapshot) == ["web", "web-1"]
        assert list(snapshot.unread) == ["pods in namespace n"]
    assert told == ["pods in namespace n is not watched, trying again: not for you (403)"]


async def test_what_a_custom_resource_owns_is_looked_up_also_when_it_comes_later(
    store: Store,
) -> None:
    one = WatchTarget(WIDGETS, "n", "one")
    widget = {"apiVersion": "example.org/v1", "kind": "Widget"}
    gadget = {"apiVersion": "example.org/v1", "kind": "Gadget"}
    await store.put(PATHS["gadgets"], "part", "one", **gadget)
    async with followed(store, one) as objects:
        assert names(await look(objects)) == []
        await store.put(PATHS["widgets"], "one", **widget)
        assert names(await look(objects)) == ["one", "part"]
        await store.put(PATHS["deployments"], "api", "one", **APPS, kind="Deployment")
        assert names(await look(objects)) == ["one", "api", "api-1", "api-1-x", "part"]


async def test_a_kind_that_may_not_be_listed_is_named_among_what_may_be_owned(store: Store) -> None:
    widget = {"apiVersion": "example.org/v1", "kind": "Widget"}
    await store.put(PATHS["widgets"], "one", **widget)
    store.refused = {PATHS["gadgets"]}
    told: list[str] = []
    async with followed(store, WatchTarget(WIDGETS, "n", "one"), told=told) as objects:
        assert names(await look(objects)) == ["one"]
    assert told == ["if it owns gadgets.example.org, that is not known: they cannot be listed"]

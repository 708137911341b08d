"""A collection is listed once, page by page, and followed from where each watch ended."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from tests.unit.cluster.api import DEEP, PATH, Api, event, failure, item, serving
from webhook.cluster import watch
from webhook.cluster.rest import RefusedError
from webhook.cluster.watch import Collection, keep_watching, keeping
from webhook.tasks.supervisor import Supervisor


@pytest.fixture
async def api() -> Api:
    return Api()


@pytest.fixture
async def collection(api: Api) -> AsyncIterator[Collection]:
    async def locate() -> str:
        return PATH

    async with serving(api) as rest:
        yield Collection(rest, locate)


async def told(collection: Collection) -> list[str]:
    return [f"{what.value} {uid}".strip() async for what, uid, *_ in collection.changes()]


async def test_a_list_comes_in_pages_and_is_then_watched_from_its_version(api, collection):
    api.lists = [[item("a", 1), item("b", 2)], [item("c", 3)]]
    api.watches = [[event("ADDED", "d", 101), event("DELETED", "a", 102)]]
    assert await told(collection) == [
        "seen a", "seen b", "seen c", "caught up", "seen d", "gone a",
    ]  # fmt: skip
    first, second, watch = api.asked
    assert first == {"limit": "250", "continue": ""}
    assert second == {"limit": "250", "continue": "more"}
    assert watch["resourceVersion"] == "100"
    assert watch["allowWatchBookmarks"] == "true"


@pytest.mark.parametrize(
    ("events", "place"),
    [
        ([event("ADDED", "a", 101)], "101"),
        ([event("ADDED", "a", 101), {"type": "BOOKMARK", "object": item("", 140)}], "140"),
        ([], "100"),
    ],
    ids=["an event", "a bookmark", "nothing"],
)
async def test_a_watch_goes_on_where_the_last_one_ended(api, collection, events, place):
    api.lists, api.watches = [[]], [events, [event("ADDED", "b", 150)]]
    await told(collection)
    assert await told(collection) == ["caught up", "seen b"]
    assert api.asked[-1]["resourceVersion"] == place
    assert len(api.asked) == 3, "and nothing was listed again"


@pytest.mark.parametrize("forgotten", [410, [failure(410)]], ids=["answer", "event"])
async def test_a_place_that_the_server_has_forgotten_is_listed_again(api, collection, forgotten):
    api.lists, api.watches = [[item("a", 1), item("b", 2)]], [[]]
    await told(collection)
    api.watches = [forgotten, []]
    api.lists = [[item("b", 2), item("c", 3)]]
    with pytest.raises(RefusedError):
        await told(collection)
    assert await told(collection) == ["seen b", "seen c", "gone a", "caught up"]


@pytest.mark.parametrize("status", [401, 403, 429, 500])
@pytest.mark.parametrize("of_event", [False, True])
async def test_any_other_refusal_is_told_and_the_place_is_kept(api, collection, status, of_event):
    api.lists, api.watches = [[]], [[event("ADDED", "a", 101)]]
    await told(collection)
    api.watches = [[failure(status)] if of_event else status, []]
    with pytest.raises(RefusedError, match=rf"told why \({status}\)"):
        await told(collection)
    assert await told(collection) == ["caught up"]
    assert api.asked[-1]["resourceVersion"] == "101"


def deep(name: str, version: int) -> dict[str, Any]:
    one = item(name, version)
    return {"metadata": one["metadata"] | {"managedFields": [{"fieldsV1": DEEP}]}}


async def test_an_object_too_deep_to_decode_is_marked_and_the_others_are_whole(api, collection):
    api.lists = [[item("a", 1), deep("b", 2)], [item("c", 3)]]
    late = event("ADDED", "d", 101)
    api.watches = [[{**late, "object": late["object"] | deep("d", 101)}, event("ADDED", "e", 102)]]
    seen = {uid: cut async for _, uid, _, cut in collection.changes() if uid}
    assert seen == {"a": False, "b": True, "c": False, "d": True, "e": False}


async def test_an_object_that_cannot_be_read_is_counted_and_left_out(api):
    supervisor = Supervisor()

    def read(one: dict[str, Any]) -> int:
        return 2 // (one["metadata"]["name"] != "bad")

    found: list[tuple[int, ...]] = []
    on_change = keeping(read, found.append, supervisor)
    api.lists, api.watches = [[item("good", 1), item("bad", 2)]], [[event("ADDED", "bad", 101)]]
    async with serving(api) as rest:
        async for change in Collection(rest, PATH).changes():
            on_change(change)
    assert found == [(2,)], "the second time nothing is another than before"
    assert supervisor.left_out == {"objects of a cluster": 2}


async def test_what_is_not_served_is_empty_and_what_was_known_of_it_is_gone(api, monkeypatch):
    monkeypatch.setattr(watch, "_UNSERVED_SECONDS", 0.0)
    paths = iter([None, PATH, None, PATH])

    async def locate() -> str | None:
        return next(paths)

    api.lists, api.watches = [[item("a", 1)]], [[]]
    async with serving(api) as rest:
        collection = Collection(rest, locate)
        assert await told(collection) == ["caught up"]
        assert await told(collection) == ["seen a", "caught up"]
        assert await told(collection) == ["gone a", "caught up"]
        api.lists, api.watches = [[item("a", 1)]], [[]]
        assert await told(collection) == ["seen a", "caught up"]


async def test_trouble_is_told_and_waited_out_longer_each_time_until_it_goes_well():
    waits: list[float] = []
    seen: list[str] = []
    trouble: list[str] = []
    turns = iter(
        [
            RefusedError(403, "no"),
            "listed",
            TimeoutError(),
            aiohttp.ClientError(),
            "good",
            OSError(),
        ]
    )
    now = 0.0

    async def sleep(seconds: float) -> None:
        if seconds:
            waits.append(seconds)

    async def states() -> AsyncIterator[str]:
        nonlocal now
        turn = next(turns, None)
        now += 100.0 * (turn == "good")
        if turn is None:
            raise asyncio.CancelledError
        if isinstance(turn, Exception):
            raise turn
        yield turn
        raise RefusedError(410, "too old")

    with pytest.raises(asyncio.CancelledError):
        await keep_watching(states, seen.append, trouble.append, sleep, lambda: now)
    assert seen == ["listed", "good"]
    assert trouble[:3] == ["no (403)", "too old (410)", "TimeoutError"]
    assert waits == [1, 2, 4, 8, 1, 2]

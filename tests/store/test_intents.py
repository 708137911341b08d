"""Two replicas and one store: what a requester sent to one of them, the other restores."""

import asyncio
import secrets
from collections.abc import Callable, Iterator

import msgspec
import pytest
from msgspec.structs import replace

from genguard.admission.review import JoinKey
from genguard.objects.intended import EVERY_OBSERVED_GENERATION, Intended, Restored
from genguard.objects.observed import Observed
from tests.store.test_observations import Member, members
from tests.unit.store.test_observation_queue import ONCE
from tests.waiting import PATIENCE, until
from webhook.store import client
from webhook.store.address import ValkeyAddress
from webhook.store.intents import _digest


def intent(number: int) -> Intended:
    return Intended(Observed(number, ()))


def key(name: str, *, dry_run: bool = False) -> JoinKey:
    return replace(ONCE[0].key, name=name, subresource="status", dry_run=dry_run)


class Story:
    """What comes in at which replica, in order."""

    def __init__(self, each: list[Member]) -> None:
        self._each = each

    async def intend(self, which: int, number: int, name: str = "one") -> None:
        shared, requests = self._of(which), self._each[which].replicas.store.requests
        before = requests["put", "ok"]
        shared.put(key(name), intent(number), 0.0)
        await until(lambda: requests["put", "ok"] > before)

    async def mutate(self, which: int, name: str = "one") -> int | None:
        """A /mutate that lost observedGeneration: what is restored."""
        shared = self._of(which)
        assert shared.lacks(key(name))
        await shared.fetch(key(name), 0.0)
        found = shared.get(key(name), 0.0)
        return None if found is None else found.observed.own

    def _of(self, which: int):
        return self._each[which].replicas.intents


@pytest.fixture
def address(proxy, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], ValkeyAddress]]:
    """A busy machine must not make the story another one."""
    monkeypatch.setattr(client, "ANSWER_SECONDS", PATIENCE)
    yield lambda: ValkeyAddress("127.0.0.1", proxy.port, prefix=f"{secrets.token_hex(4)}:")
    proxy.open()


async def test_what_one_was_sent_the_other_restores_and_restores_again(address):
    async with members(address(), 2) as each:
        story = Story(each)
        await story.intend(0, 5)
        assert [await story.mutate(which) for which in (1, 1, 0)] == [5, 5, 5]
        assert await story.mutate(1, "never sent") is None


@pytest.mark.parametrize("second", [0, 1])
async def test_two_that_differ_cancel_each_other_wherever_they_came_in(address, second):
    async with members(address(), 2) as each:
        story = Story(each)
        await story.intend(0, 5)
        await story.intend(second, 6)
        assert [await story.mutate(which) for which in (0, 1)] == [None, None]


async def test_an_intent_after_an_answered_one_is_a_new_write(address):
    async with members(address(), 2) as each:
        story = Story(each)
        await story.intend(0, 5)
        assert await story.mutate(1) == 5
        await story.intend(1, 6)
        assert [await story.mutate(which) for which in (0, 1)] == [6, 6]


async def test_an_intent_that_nobody_had_to_fetch_is_answered_too(address):
    async with members(address(), 2) as each:
        story = Story(each)
        await story.intend(0, 5)
        requests = each[1].replicas.store.requests
        each[1].replicas.intents.get(key("one"), 0.0)  # a /mutate that lost nothing
        await until(lambda: requests["mark", "ok"] == 1)
        await story.intend(0, 6)
        assert await story.mutate(1) == 6


async def test_a_dry_run_leaves_nothing_in_the_store(address, store):
    at = address()
    async with members(at, 1) as (one,):
        shared = one.replicas.intents
        shared.put(key("tried", dry_run=True), intent(5), 0.0)
        await Story([one]).intend(0, 5, "after the dry run")
        assert not shared.lacks(key("tried", dry_run=True))
        assert len(store.run("KEYS", f"{at.prefix}i2:*")) == 1


async def test_every_key_expires_and_no_name_is_in_a_key(address, store):
    at = address()
    async with members(at, 1) as (one,):
        await Story([one]).intend(0, 5, "a-telling-name")
        one.put("an observation")
        await until(lambda: store.run("PTTL", f"{at.prefix}facts2") > 0)
        for name in store.run("KEYS", f"{at.prefix}*"):
            assert 0 < store.run("PTTL", name) <= 3_600_000
            assert b"telling" not in name


async def test_a_store_that_is_silent_is_waited_for_for_moments_and_one_that_is_away_not_at_all(
    address, proxy, store, monkeypatch
):
    monkeypatch.setattr(client, "ANSWER_SECONDS", 0.02)
    async with members(address(), 2) as each:
        shared, requests = each[1].replicas.intents, each[1].replicas.store.requests
        store.pause()
        try:
            async with asyncio.timeout(PATIENCE):
                await shared.fetch(key("one"), 0.0)
            assert requests["fetch", "timeout"] == 1
            await until(lambda: not each[1].up)
            assert not shared.lacks(key("one"))
            shared.put(key("one"), intent(5), 0.0)
            assert shared.get(key("one"), 0.0) == intent(5), "from its own memory"
            assert requests["put", "dropped"] == 1
        finally:
            store.go_on()
        await until(lambda: each[1].up)
        monkeypatch.setattr(client, "ANSWER_SECONDS", PATIENCE)
        story = Story(each)
        await story.intend(0, 7, "later")
        assert await story.mutate(1, "later") == 7, "no late reply is taken for this one"


@pytest.mark.parametrize(
    ("value", "reason", "restored"),
    [
        (b"0\xc1 nonsense", "unreadable", None),
        (b"0" + b"x" * (1024 * 1024), None, None),
        (b"0" + msgspec.msgpack.encode(intent(5)), None, 5),
    ],
    ids=["nonsense", "too large", "good"],
)
async def test_only_what_this_server_might_have_put_is_taken(
    address, store, value, reason, restored
):
    at = address()
    async with members(at, 1) as (one,):
        store.run("SET", f"{at.prefix}i2:".encode() + _digest(key("one")), value)
        assert await Story([one]).mutate(0) == restored
        assert {name for name, count in one.replicas.intents.unused.items() if count} == (
            set() if reason is None else {reason}
        )


async def test_fields_that_this_server_does_not_restore_are_not_taken(address, store):
    at = address()
    sent = Intended(Observed(5, ()), ((("status", "phase"), b'"Bad"'),))
    async with members(at, 1) as (one,):
        name = f"{at.prefix}i2:".encode() + _digest(key("one"))
        store.run("SET", name, b"0" + msgspec.msgpack.encode(sent))
        await one.replicas.intents.fetch(key("one"), 0.0)
        assert one.replicas.intents.get(key("one"), 0.0) == intent(5)
        assert one.replicas.intents.unused["unfit"] == 1
    assert Restored() == EVERY_OBSERVED_GENERATION

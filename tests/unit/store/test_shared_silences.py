"""Silences in the shared store: every replica comes to hold the same, whatever the store loses."""

import msgspec
import pytest
from msgspec.structs import replace

from genguard.detection.finding import Severity
from genguard.detection.silences import Action, Silence, Silences
from webhook.store.circuit_breaker import StoreLostError
from webhook.store.seal import Plain, Sealed
from webhook.store.shared_silences import LARGEST_VALUE, SharedSilences

NOW = 1_000_000.0
KEY = "p:silences1"
ENTRY = Silence("f", Action.SILENCED, "known", "ana", NOW, NOW + 3_600.0, Severity.WARNING)


class FakeStore:
    """Keeps one value and does what the two scripts say; `meanwhile` runs before a write."""

    def __init__(self) -> None:
        self.value: bytes | None = None
        self.is_lost = False
        self.writes = 0
        self.kept_milliseconds = 0
        self.meanwhile = None

    async def ask(self, operation, command):
        assert (operation, command[3]) == ("silence", KEY)
        if self.is_lost:
            raise StoreLostError("gone")
        if "SET" not in command[1]:
            is_long = self.value is not None and len(self.value) > command[4]
            return b"" if is_long else self.value
        if self.meanwhile is not None:
            self.meanwhile()
        known = self.value or b""
        if known != command[4] and len(known) <= command[7]:
            return 0
        self.value, self.kept_milliseconds = command[5], command[6]
        self.writes += 1
        return 1


def replica(store, seal=None):
    silences = Silences()
    return silences, SharedSilences(store, "p:", seal or Plain(), silences, lambda: NOW)


async def test_what_one_replica_silences_the_others_know_and_so_what_it_ends():
    store = FakeStore()
    one, sharing = replica(store)
    other, sharing_too = replica(store)
    one.put(ENTRY, NOW)
    await sharing.sync()
    await sharing_too.sync()
    assert other.all(NOW) == (ENTRY,)
    other.end("f", "ben", NOW)
    await sharing_too.sync()
    await sharing.sync()
    assert one.find("f", NOW) is None
    assert store.kept_milliseconds == 3_600_000, "the key expires"
    writes = store.writes
    await sharing.sync()
    await sharing_too.sync()
    assert store.writes == writes, "nothing is written where nothing changed"


async def test_without_silences_nothing_is_written():
    store = FakeStore()
    _, sharing = replica(store)
    await sharing.sync()
    assert store.value is None


async def test_a_store_that_was_lost_or_emptied_gets_them_again():
    store = FakeStore()
    silences, sharing = replica(store)
    silences.put(ENTRY, NOW)
    store.is_lost = True
    await sharing.sync()
    store.is_lost = False
    await sharing.sync()
    store.value = None
    await sharing.sync()
    assert store.writes == 2


async def test_what_another_replica_writes_meanwhile_is_not_lost():
    store = FakeStore()
    silences, sharing = replica(store)
    silences.put(ENTRY, NOW)
    theirs = replace(ENTRY, finding="g")
    store.meanwhile = lambda: setattr(store, "value", msgspec.msgpack.encode([theirs]))
    await sharing.sync()
    assert store.writes == 0
    store.meanwhile = None
    await sharing.sync()
    assert silences.all(NOW) == (ENTRY, theirs)
    assert msgspec.msgpack.decode(store.value, type=list[Silence]) == [ENTRY, theirs]


@pytest.mark.parametrize(
    "value",
    [
        b"\xc1 sealed by nobody",
        b"\xff\xff",
        msgspec.msgpack.encode([{"finding": ""}]),
        msgspec.msgpack.encode([replace(ENTRY, finding=f"f-{one}") for one in range(501)]),
        msgspec.msgpack.encode([replace(ENTRY, reason="x" * 301)]),
        b"x" * (LARGEST_VALUE + 1),
    ],
)
async def test_what_no_replica_can_have_written_is_replaced(value):
    store = FakeStore()
    store.value = value
    silences, sharing = replica(store)
    silences.put(ENTRY, NOW)
    await sharing.sync()
    assert silences.all(NOW) == (ENTRY,)
    assert msgspec.msgpack.decode(store.value, type=list[Silence]) == [ENTRY]


async def test_sealed_the_store_sees_no_reason_and_a_stranger_silences_nothing():
    store, seal = FakeStore(), Sealed()
    silences, sharing = replica(store, seal)
    silences.put(ENTRY, NOW)
    await sharing.sync()
    assert b"known" not in store.value
    store.value = msgspec.msgpack.encode([replace(ENTRY, finding="g")])
    await sharing.sync()
    assert silences.find("g", NOW) is None

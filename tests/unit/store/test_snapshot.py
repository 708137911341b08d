"""What the leader publishes is read whole, or not at all, and only what changed is written."""

from typing import Any

import pytest
from msgspec.structs import replace

from genguard.detection.ledger import Ledger
from genguard.detection.suspects import Suspects
from tests.unit.detection.test_ledger import WRITE, of
from tests.unit.detection.test_ledger_follow import BY_OTHERS, ledger_of, told
from webhook.store.seal import Plain
from webhook.store.snapshot import PARTS, Head, Snapshots, SnapshotWriter


class Store:
    """Runs the commands, and notes which keys were written."""

    def __init__(self) -> None:
        self.values: dict[bytes, bytes] = {}
        self.written: list[bytes] = []

    def run(self, command: Any) -> None:
        if command[0] == "DEL":
            self.values.pop(command[1].encode(), None)
            return
        verb, key, value, unit, milliseconds = command
        assert (verb, unit) == ("SET", "PX")
        assert 0 < milliseconds <= 3_600_000
        self.values[key.encode()] = value
        self.written.append(key.encode())

    async def get(self, key: bytes) -> bytes | None:
        return self.values.get(key)


SNAPSHOTS = Snapshots("p:", Plain())


async def read(store: Store) -> Ledger | None:
    """A replica that shows what is published; None where a part is missing."""
    head = await SNAPSHOTS.head(store.get)
    if head is None:
        return None
    rows = []
    for number, version in enumerate(head.versions):
        part = await SNAPSHOTS.part(store.get, number, version)
        if part is None:
            return None
        rows += part
    ledger = Ledger(Suspects())
    ledger.follow(rows)
    return ledger


async def write(writer: SnapshotWriter, at: bytes = b"1-0") -> None:
    assert await writer.write(at, {b"me": 7}, is_last=True)


UIDS = tuple(f"uid-{number}" for number in range(200))


async def test_what_was_written_is_read():
    store = Store()
    assert await read(store) is None
    ledger = ledger_of(*UIDS)
    await write(SnapshotWriter(store.run, SNAPSHOTS, ledger), b"5-1")
    found = await read(store)
    assert found is not None
    assert told(found) == told(ledger)
    head = await SNAPSHOTS.head(store.get)
    assert head is not None
    assert (head.at, head.taken) == (b"5-1", {b"me": 7})


async def test_only_parts_that_changed_are_written_and_what_is_old_is_deleted():
    store, ledger = Store(), ledger_of(*UIDS)
    writer = SnapshotWriter(store.run, SNAPSHOTS, ledger)
    await write(writer)
    for time in range(300, 309):
        store.written.clear()
        write_of = replace(WRITE, object=of(UIDS[0]), time=float(time))
        ledger.add("status-clobbered", BY_OTHERS, write_of)
        await write(writer)
        assert len(store.written) == 2, "a part, and the head"
    assert len(store.values) <= PARTS + 2, "one older version of a part"
    found = await read(store)
    assert found is not None
    assert told(found) == told(ledger)


async def test_after_a_loss_everything_is_written_again():
    store, ledger = Store(), ledger_of(*UIDS)
    writer = SnapshotWriter(store.run, SNAPSHOTS, ledger)
    await write(writer)
    store.values.clear()
    await write(writer)
    assert await read(store) is None
    writer.write_all()
    await write(writer)
    assert await read(store) is not None


async def test_two_that_lead_at_once_do_not_write_into_each_others_parts():
    """Each for some seconds, after a loss of the store."""
    store, first, second = Store(), ledger_of("a", "b"), ledger_of("b", "c", "b")
    one, other = (SnapshotWriter(store.run, SNAPSHOTS, ledger) for ledger in (first, second))
    for _ in range(3):
        await write(one)
        await write(other)
    await write(one)
    found = await read(store)
    assert found is not None
    assert told(found) == told(first)


async def test_a_head_is_written_when_it_is_due_and_not_before():
    store = Store()
    writer = SnapshotWriter(store.run, SNAPSHOTS, ledger_of("a"))
    assert await writer.write(b"1-0", {})
    assert not await writer.write(b"2-0", {})


@pytest.mark.parametrize(
    "content", [None, b"\xc1", b"", b"\x93\xa5part2\x07\x90", b"\x91" * 100_000]
)
@pytest.mark.parametrize("is_head", [True, False])
async def test_what_is_not_whole_is_none(content: bytes | None, is_head: bool):
    store = Store()
    await write(SnapshotWriter(store.run, SNAPSHOTS, ledger_of("a")))
    (lost,) = [key for key in store.values if (key == b"p:found2") is is_head]
    if content is None:
        del store.values[lost]
    else:
        store.values[lost] = content
    assert await read(store) is None


@pytest.mark.parametrize(
    "head",
    [
        Head(b"no id", {}, (0,) * PARTS),
        Head(b"1-1", {}, (0,) * (PARTS - 1)),
        Head(b"1-1", {b"%d" % one: 1 for one in range(1_001)}, (0,) * PARTS),
    ],
)
async def test_a_head_that_no_leader_writes_is_none(head: Head):
    store = Store()
    store.run(SNAPSHOTS.write_head(head))
    assert await SNAPSHOTS.head(store.get) is None

"""What a replica that is new begins with is read whole, or not at all."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhook.store.seal import Plain
from webhook.store.snapshot import Snapshot, Snapshots
from webhook.store.stream import MOST_BYTES

_LARGE = b"x" * (MOST_BYTES // 3)


class Store:
    def __init__(self) -> None:
        self.values: dict[bytes, bytes] = {}

    def run(self, *command: Any) -> None:
        verb, key, value, unit, milliseconds = command
        assert (verb, unit) == ("SET", "PX")
        assert 0 < milliseconds <= 3_600_000
        assert len(value) <= MOST_BYTES + 100
        self.values[key.encode()] = value

    async def get(self, key: bytes) -> bytes | None:
        return self.values.get(key)


def snapshot(at: bytes, rows: int = 1, waiting: int = 1, content: bytes = b"row") -> Snapshot:
    return Snapshot(
        at, tuple((str(number), content) for number in range(rows)), (content,) * waiting
    )


@given(st.integers(0, 9), st.integers(0, 9), st.sampled_from([b"", b"row", _LARGE]))
async def test_what_was_written_is_read(rows: int, waiting: int, content: bytes):
    store, written = Store(), snapshot(b"1-0", rows, waiting, content)
    assert await Snapshots("p:", Plain()).read(store.get) is None
    for command in Snapshots("p:", Plain()).write(written):
        store.run(*command)
    assert await Snapshots("p:", Plain()).read(store.get) == written


async def test_one_that_is_being_written_does_not_spoil_the_last():
    store, snapshots = Store(), Snapshots("p:", Plain())
    for at in (b"1-0", b"2-0"):
        for command in snapshots.write(snapshot(at, 9, content=_LARGE)):
            store.run(*command)
    *parts, _ = snapshots.write(snapshot(b"3-0", 9, content=_LARGE))
    for command in parts:
        store.run(*command)
        found = await snapshots.read(store.get)
        assert found is not None
        assert found.at == b"2-0"


@pytest.mark.parametrize("lost", ["p:found1", "p:found1:1:1", "p:found1:1:2"])
@pytest.mark.parametrize("content", [None, b"\xc1", b"\x93\xa5part1\xc4\x039-9\x90"])
async def test_one_that_is_not_whole_is_none(lost: str, content: bytes | None):
    store, snapshots = Store(), Snapshots("p:", Plain())
    for command in snapshots.write(snapshot(b"1-0", 4, content=_LARGE)):
        store.run(*command)
    assert lost.encode() in store.values
    if content is None:
        del store.values[lost.encode()]
    else:
        store.values[lost.encode()] = content
    assert await snapshots.read(store.get) is None

"""`python -m tools.fuzz.wire [--seconds N] [--seed N]`: random pipelines, on both event loops.

An exchange is one connection. It sends 1 to 200 requests of random forms, cut at random places, and
reads all answers, or goes away in the middle. Each answer must be 200 and have the uid of the
request at its place. A fault names the seed of its exchange, which makes the same bytes again.
"""

import argparse
import asyncio
import json
import os
import random
import ssl
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from unittest.mock import patch

from tests.contract.service import Wire, http_post
from tests.contract.test_process import Served, served
from tests.event_loops import EVENT_LOOPS, environment
from tests.reviews import make_review

LONGEST: Final = 200
"""Requests of one exchange."""
CLIENTS: Final = 8
_PATIENCE: Final = 60.0
_PATHS: Final = tuple(f"/{phase}?timeout=30s" for phase in ("intent", "mutate", "outcome"))
_CLOSED_BEFORE: Final = ((0, "ConnectionResetError"), (0, "BrokenPipeError"))
_UPGRADES: Final = ("websocket", "WebSocket", "tcp", "h2c")


@dataclass(slots=True)
class Tried:
    """What was sent and answered as it should be."""

    exchanges: int = 0
    answers: int = 0


@dataclass(frozen=True, slots=True)
class Exchange:
    """The bytes of one connection in pieces, and the uids of the answers that it waits for.

    is_last  the server closes the connection after the last of these answers
    """

    pieces: tuple[bytes, ...]
    uids: tuple[str, ...]
    is_last: bool


def make_exchange(seed: int) -> Exchange:
    """Make the exchange of a seed, always the same."""
    draw = random.Random(seed)
    count = draw.choice((1, 1, 2, 3, draw.randint(1, 32), draw.randint(33, LONGEST)))
    uids = tuple(f"{seed}-{number}" for number in range(count))
    upgrades = draw.random() < 0.15
    requests = [_request(draw, uid, upgrades=upgrades) for uid in uids]
    data, whole = b"".join(requests), count
    last = next((at for at, one in enumerate(requests) if b"\r\nUpgrade: " in one), count)
    if draw.random() < 0.25:  # goes away in the middle of a request, with answers not read
        whole = draw.randrange(count)
        sent = sum(map(len, requests[:whole]))
        data = data[: sent + draw.randrange(len(requests[whole]))]
        uids = uids[: draw.randint(0, whole)]
    cuts = sorted(draw.choices(range(len(data) + 1), k=draw.choice((0, 1, 2, 5, 40, 300))))
    ends = (*cuts, len(data))
    pieces = (data[start:end] for start, end in zip((0, *cuts), ends, strict=True))
    return Exchange(tuple(filter(None, pieces)), uids[: last + 1], last < len(uids))


def _request(draw: random.Random, uid: str, *, upgrades: bool) -> bytes:
    filling = "x" * draw.choice((0, 10, 100, 1_000, draw.choice((10, 20_000))))
    review = make_review("CREATE", new={"spec": {"filling": filling}})
    review["request"]["uid"] = uid
    body, path, form = json.dumps(review).encode(), draw.choice(_PATHS), draw.random()
    if form < 0.1:
        size = draw.choice((50, 300, 5_000))
        parts = (body[start : start + size] for start in range(0, len(body), size))
        chunks = b"".join(b"%x\r\n%b\r\n" % (len(one), one) for one in parts)
        head = http_post(b"", path, Content_Length="", Transfer_Encoding="chunked")
        return head + chunks + b"0\r\n\r\n"
    if upgrades and form < 0.2:
        return http_post(body, path, Connection="Upgrade", Upgrade=draw.choice(_UPGRADES))
    if form < 0.3:
        return http_post(body, path, Content_Type="application/json; charset=utf-8")
    return http_post(body, path)


async def check(port: int, trust: ssl.SSLContext, seed: int, tried: Tried) -> None:
    """Send the exchange of a seed. Raises where an answer is missing or of another request."""
    exchange, draw = make_exchange(seed), random.Random(f"pauses {seed}")
    streams = await asyncio.open_connection(
        "127.0.0.1", port, ssl=trust, server_hostname="localhost"
    )
    wire = Wire(*streams)
    sending = asyncio.create_task(_send(wire, exchange.pieces, draw))
    try:
        for uid in exchange.uids:
            found = await _answered(wire)
            if exchange.is_last and found in _CLOSED_BEFORE:
                break  # closed with requests unread: TCP then may drop what the client has not read
            if found != (200, uid):
                raise AssertionError(f"seed {seed}: {uid} was asked, and {found} answered")
            tried.answers += 1
        if exchange.is_last and not await _closed(wire):
            raise AssertionError(f"seed {seed}: the connection stays open")
        if draw.random() < 0.5:
            await sending
    finally:
        sending.cancel()
        await asyncio.wait([sending])
        wire.writer.transport.abort()
    tried.exchanges += 1


async def _send(wire: Wire, pieces: tuple[bytes, ...], draw: random.Random) -> None:
    pause = draw.choice((None, 0.0, 0.001))
    with suppress(ConnectionError):  # the server has closed, behind an upgrade
        for piece in pieces:
            if wire.writer.is_closing():
                return
            wire.writer.write(piece)
            if pause is not None:
                await asyncio.sleep(pause)
            await wire.writer.drain()


async def _closed(wire: Wire) -> bool:
    try:
        return await wire.closed(_PATIENCE)
    except TimeoutError:
        return False


async def _answered(wire: Wire) -> tuple[int, str]:
    """Read the next answer: its status, and its uid or what came instead."""
    try:
        answer = await wire.answer(_PATIENCE)
    except (TimeoutError, OSError, asyncio.IncompleteReadError) as error:
        return 0, type(error).__name__
    return answer.status, answer.json.get("response", answer.json).get("uid", "no uid")


async def fuzz(loop: str, seconds: float, first: int) -> Tried:
    """Check exchanges from the seed `first` on, for so many seconds, with a server on this loop."""
    tried = Tried()
    hidden = patch.dict(os.environ, environment(loop))
    with tempfile.TemporaryDirectory() as folder, hidden:
        async with served(Path(folder)) as run:
            port = int(run.facts["admission"].rpartition(":")[2])
            trust = ssl.create_default_context(cafile=str(run.folder / "ca.crt"))
            reading = asyncio.create_task(_drop_log(run))
            end = time.monotonic() + seconds
            seeds = iter(range(first, sys.maxsize))
            clients = [_work(port, trust, seeds, end, tried) for _ in range(CLIENTS)]
            await asyncio.gather(*clients)
            assert run.process.returncode is None
        await reading
    return tried


async def _drop_log(run: Served) -> None:
    """Read what the server logs: with a full pipe it could neither log nor be seen to end."""
    stream = run.process.stderr
    assert stream is not None
    while await stream.read(65_536):
        pass


async def _work(
    port: int, trust: ssl.SSLContext, seeds: Iterator[int], end: float, tried: Tried
) -> None:
    for seed in seeds:
        await check(port, trust, seed, tried)
        if time.monotonic() >= end:
            return


def main() -> None:
    """Exits with a traceback when something failed."""
    parser = argparse.ArgumentParser(prog="python -m tools.fuzz.wire", description=__doc__)
    parser.add_argument("--seconds", type=int, default=60, help="of both event loops together")
    parser.add_argument("--seed", type=int, default=int(time.time()) * 1_000, help="the first")
    given = parser.parse_args()
    for loop in EVENT_LOOPS:
        tried = asyncio.run(fuzz(loop, given.seconds / len(EVENT_LOOPS), given.seed))
        print(f"{loop}: {tried.exchanges:,} connections, {tried.answers:,} answers, no fault")


if __name__ == "__main__":
    main()

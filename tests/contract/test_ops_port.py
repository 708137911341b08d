"""The ops port under attack: its clients get no more than its share, and probes are answered."""

import asyncio
import contextlib
from dataclasses import replace

import pytest

from tests.contract.hostile import GOOD
from tests.contract.service import PATIENT, Running, Wire, head, serving
from tests.contract.victim import Victim, victim
from tests.waiting import patiently, until
from webhook.server.options import Limits, fit

PAGE = head("GET / HTTP/1.1", [("Host", "localhost")])


async def busy(run: Running) -> Wire:
    """A connection that waits for a page, while the queue of pages does not move."""
    queue, wire = run.dashboard._queue, await run.dial()
    left = queue._left
    await wire.send(PAGE)
    await until(lambda: queue._left < left, "the page is waited for")
    return wire


async def dropped(run: Running, reason: str, count: int) -> None:
    """Wait until so many connections were dropped for a reason."""
    async with patiently():
        while True:
            found = await run.samples("genguard_ops_refused_connections_total")
            if found.get(f'reason="{reason}"', 0.0) >= count:
                return
            await asyncio.sleep(0.05)


MANY = 600
FEW = 512


@pytest.mark.parametrize("port", ["ops", "admission"])
async def test_idle_connections_leave_descriptors_for_reviews_and_probes(
    tmp_path, on_each_loop, port
):
    async with victim(tmp_path, descriptors=(64, FEW)) as run:
        assert run.most_descriptors == FEW, "the soft limit was raised"
        dial = run.plain_ops if port == "ops" else run.plain
        wires = [await dial() for _ in range(MANY)]
        limits = fit(Limits(), FEW)
        most = limits.ops_connections if port == "ops" else limits.connections
        await until(lambda: run.descriptors > most, "as many as may be are accepted")
        assert await run.ops("/livez") == "ok\n"
        if port == "ops":
            wire = await run.connect()
            assert (await wire.post(GOOD.encode(), "/mutate?timeout=30s")).status == 200
            await wire.close()
        assert run.descriptors < FEW
        assert not [one for one in run.log if one["message"] == "no connection can be accepted"]
        for wire in wires:
            wire.writer.transport.abort()


async def test_with_64_descriptors_both_ports_full_leave_some_for_reviews_probes_and_files(
    tmp_path, on_each_loop
):
    keeping = (f"--store=sqlite:{tmp_path}/state.db", f"--record={tmp_path}/recording")
    async with victim(tmp_path, *keeping, descriptors=(64, 64)) as run:
        kept = await run.connect()
        wires = [await run.plain() for _ in range(200)] + [await run.plain_ops() for _ in range(99)]
        for _ in range(5):
            assert (await kept.post(GOOD.encode(), "/mutate?timeout=30s")).status == 200
            assert await run.ops("/livez") == "ok\n"
            assert await run.ops("/readyz") == "ok\n"
        dropped = await run.metric('genguard_refused_requests_total{reason="too-many-connections"}')
        assert dropped > 0
        for wire in wires:
            wire.writer.transport.abort()
        await patiently_connected(run)
        # On asyncio a burst may take the last descriptor for a moment: it is said, and goes on.
        told = {line["message"] for line in run.log if line["level"] != "info"}
        assert not told or all("accept" in message for message in told), told
        await kept.close()


async def patiently_connected(run: Victim) -> None:
    """Wait until a new connection is answered: descriptors were given back."""
    async with patiently():
        while True:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                wire = await run.connect()
                assert (await wire.post(GOOD.encode(), "/mutate?timeout=30s")).status == 200
                await wire.close()
                return
            await asyncio.sleep(0.1)


async def test_headers_that_do_not_come_lose_their_connection(tmp_path):
    async with serving(tmp_path, limits=replace(PATIENT, ops_header_seconds=0.2)) as run:
        wire = await run.dial()
        await wire.send(b"GET /livez HT")
        assert await wire.closed()
        await dropped(run, "slow-headers", 1)


async def test_a_connection_that_a_browser_opened_ahead_is_closed_and_not_counted(tmp_path):
    async with serving(tmp_path, limits=replace(PATIENT, ops_header_seconds=0.2)) as run:
        wire = await run.dial()
        assert await wire.closed()
        assert await run.samples("genguard_ops_refused_connections_total") == {}


async def test_a_connection_without_a_request_is_closed_and_not_counted(tmp_path):
    limits = replace(PATIENT, ops_idle_seconds=0.2)
    async with serving(tmp_path, limits=limits) as run:
        wire = await run.dial()
        await wire.send(head("GET /livez HTTP/1.1", [("Host", "localhost")]))
        assert (await wire.answer()).status == 200
        assert await wire.closed()
        assert await run.samples("genguard_ops_refused_connections_total") == {}


async def test_a_client_that_reads_no_answers_loses_its_connection(tmp_path):
    limits = replace(PATIENT, ops_idle_seconds=0.2, ops_header_seconds=0.2)
    async with serving(tmp_path, limits=limits) as run:
        deaf = await run.dial()
        deaf.writer.transport.pause_reading()
        asked = head("GET /metrics HTTP/1.1", [("Host", "localhost")])
        with pytest.raises(ConnectionError):
            async with patiently():
                while True:
                    await deaf.send(asked * 100)
                    await asyncio.sleep(0.05)
        found = await run.samples("genguard_ops_refused_connections_total")
        assert found == {'reason="slow-reader"': 1.0}


async def test_a_new_connection_takes_the_place_of_the_one_that_waits_longest(tmp_path):
    async with (
        serving(tmp_path, limits=replace(PATIENT, ops_connections=3)) as run,
        run.dashboard._queue._one,
    ):
        waits = await busy(run)
        idle = [await run.dial() for _ in range(2)]
        assert (await run.ops("/livez")).status == 200
        assert await idle[0].closed()
        assert not idle[1].reader.at_eof()
        assert not waits.reader.at_eof()
        await dropped(run, "too-many-connections", 1)


async def test_who_comes_when_all_are_busy_is_told_so_and_probes_are_answered(tmp_path):
    async with (
        serving(tmp_path, limits=replace(PATIENT, ops_connections=2)) as run,
        run.dashboard._queue._one,
    ):
        waiting = [await busy(run) for _ in range(2)]
        for path in ("/", "/metrics", "/api/findings", "/nowhere"):
            answer = await run.ops(path)
            assert (answer.status, answer.headers["retry-after"]) == (503, "2")
            assert b"too many connections to the ops port" in answer.body
            assert answer.closes
        assert (await run.ops("/livez")).status == 200
        assert (await run.ops("/readyz")).status == 200
        await waiting[0].close()
        async with patiently():
            while (await run.ops("/metrics")).status != 200:
                await asyncio.sleep(0.05)


async def test_beyond_the_spare_connections_nobody_is_accepted(tmp_path):
    limits = replace(PATIENT, ops_connections=1, ops_spare=2)
    async with serving(tmp_path, limits=limits) as run, run.dashboard._queue._one:
        await busy(run)
        waiting = [await run.dial() for _ in range(4)]
        assert await waiting[0].closed()
        assert await waiting[1].closed()
        assert not waiting[3].reader.at_eof()


@pytest.mark.parametrize("sent", [b"\x16\x03\x01\x02\x00\x01", b""])
async def test_handshakes_that_do_not_end_give_way_to_new_ones(tmp_path, sent):
    limits = replace(PATIENT, ops_connections=3)
    async with serving(tmp_path, limits=limits, ops_tls=True) as run:
        begun = [await run.dial() for _ in range(3)]
        for wire in begun:
            await wire.send(sent)
        await asyncio.sleep(0.05)
        assert (await run.ops("/livez", tls=True)).status == 200
        assert await begun[0].closed()

"""Ready, draining, stopped: what a rolling update sees."""

import asyncio
import json
import ssl
import time

import pytest

from tests.contract.hostile import GOOD
from tests.contract.service import http_post, serving
from webhook.server.limits import Limits

QUICK = Limits(drain_quiet_seconds=0.3, drain_seconds=5.0)


async def test_a_server_that_serves_is_alive_and_ready(running):
    for path in ("/livez", "/readyz"):
        answer = await running.ops(path)
        assert (answer.status, answer.body) == (200, b"ok\n")


async def test_a_server_that_drains_says_so_and_answers_on(tmp_path):
    async with serving(tmp_path, limits=QUICK) as run:
        kept = await run.connect()
        assert not (await kept.post(GOOD.encode())).closes
        drain = asyncio.create_task(run.service.drain())
        await asyncio.sleep(0)
        ready = await run.ops("/readyz")
        assert (ready.status, ready.json) == (503, {"ready": False, "missing": "draining"})
        assert (await run.ops("/livez")).status == 200
        answer = await kept.post(GOOD.encode())
        assert (answer.status, answer.closes) == (200, True)
        assert await kept.closed()
        late = await run.post(GOOD.encode())
        assert (late.status, late.closes) == (200, True)
        await drain


async def test_a_server_takes_new_connections_and_is_ready_for_as_long_as_it_was_told(tmp_path):
    limits = Limits(drain_quiet_seconds=0.0, drain_seconds=5.0)
    async with serving(tmp_path, limits=limits, shutdown_delay=1.0) as run:
        began = time.monotonic()
        drain = asyncio.create_task(run.service.drain())
        await asyncio.sleep(0.3)
        assert (await run.ops("/readyz")).status == 200
        assert (await run.post(GOOD.encode())).closes
        await drain
        assert time.monotonic() - began >= 1.0
        assert (await run.ops("/readyz")).status == 503


async def test_a_server_that_drains_closes_idle_connections_and_no_others(tmp_path):
    async with serving(tmp_path, limits=Limits(drain_quiet_seconds=3, drain_seconds=5.0)) as run:
        idle, begun = await run.connect(), await run.connect()
        for one in (idle, begun):
            assert not (await one.post(GOOD.encode())).closes
        await asyncio.sleep(0.6)
        request = http_post(GOOD.encode())
        await begun.send(request[:-10])
        await asyncio.sleep(0.1)
        drain = asyncio.create_task(run.service.drain())
        assert await idle.closed()
        await begun.send(request[-10:])
        assert (await begun.answer()).status == 200
        drain.cancel()


async def test_a_drain_ends_when_it_is_quiet(tmp_path):
    async with serving(tmp_path, limits=QUICK) as run:
        begun = last = time.monotonic()
        drain = asyncio.create_task(run.service.drain())
        while time.monotonic() - begun < 0.6:
            await run.post(GOOD.encode())
            last = time.monotonic()
        await drain
        assert time.monotonic() - last > 0.2
        assert time.monotonic() - begun < 5.0, "and not because its time was up"


async def test_a_drain_ends_though_it_is_never_quiet(tmp_path):
    async with serving(tmp_path, limits=Limits(drain_quiet_seconds=9, drain_seconds=0.3)) as run:
        async with asyncio.timeout(5):
            await run.service.drain()


async def test_a_stop_finishes_what_is_in_flight(tmp_path):
    async with serving(tmp_path) as run:
        body = GOOD.encode()
        wire = await run.connect()
        await wire.send(http_post(body[:-1], Content_Length=str(len(body))))
        await asyncio.sleep(0.05)
        stop = asyncio.create_task(run.service.stop())
        await asyncio.sleep(0.05)
        with pytest.raises(OSError):
            await run.connect()
        await wire.send(body[-1:])
        assert (await wire.answer()).status == 200
        await stop


async def test_a_stop_does_not_wait_for_idle_connections(tmp_path):
    async with serving(tmp_path) as run:
        wire = await run.connect()
        await wire.post(GOOD.encode())
        async with asyncio.timeout(4):  # a wait would take five seconds
            await run.service.stop()
        assert await wire.closed()


async def test_a_port_that_is_taken_is_an_error_and_leaves_nothing_behind(tmp_path):
    async with serving(tmp_path) as run:
        taken = run.service.secure_port
        with pytest.raises(OSError, match="address already in use"):
            await asyncio.start_server(lambda *_: None, "127.0.0.1", taken)


async def test_plain_http_on_the_admission_port_is_no_answer_and_no_harm(running):
    reader, writer = await asyncio.open_connection("127.0.0.1", running.service.secure_port)
    writer.write(http_post(GOOD.encode()))
    assert not (await reader.read(100)).startswith(b"HTTP")
    writer.close()
    assert (await running.post(GOOD.encode())).status == 200


async def test_a_client_without_trust_gets_no_answer(running):
    running.trust = ssl.create_default_context()
    with pytest.raises(ssl.SSLCertVerificationError):
        await running.connect()


@pytest.mark.parametrize("path", ["/debug", "/metrics/x", "/api", "/../etc/passwd"])
async def test_the_ops_port_answers_nothing_it_was_not_made_for(running, path):
    assert (await running.ops(path)).status == 404
    assert (await running.ops("/livez", "POST")).status == 405


async def test_the_log_tells_where_it_serves_in_one_json_object_a_line(tmp_path, logged):
    async with serving(tmp_path) as run:
        port = run.service.secure_port
    lines = [json.loads(line) for line in logged().splitlines()]
    assert [line["message"] for line in lines][-2:] == ["serving", "stopped"]
    (serving_,) = (line for line in lines if line["message"] == "serving")
    assert serving_["admission"] == f"https://127.0.0.1:{port}"
    assert len(serving_["certificate"]) == 64

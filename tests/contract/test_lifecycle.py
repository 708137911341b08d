"""Ready, draining, stopped: what a rolling update sees."""

import asyncio
import json
import time
from dataclasses import replace
from typing import Any

import pytest

from tests.contract.hostile import GOOD
from tests.contract.service import PATIENT, http_post, serving
from tests.waiting import patiently, until
from webhook.server import admission, lifecycle

ENDLESS = 3_600.0
LONG = replace(PATIENT, drain_quiet_seconds=ENDLESS, drain_seconds=2 * ENDLESS)


class Clock:
    """The module `time`, as many seconds ahead as a test says."""

    ahead = 0.0

    def monotonic(self) -> float:
        return time.monotonic() + self.ahead

    def __getattr__(self, name: str) -> Any:
        return getattr(time, name)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """By it a drain begins and ends; connections and the event loop have the real one."""
    clock = Clock()
    for module in (lifecycle, admission):
        monkeypatch.setattr(module, "time", clock)
    return clock


async def test_a_server_that_serves_is_alive_and_ready(running):
    for path in ("/livez", "/readyz"):
        answer = await running.ops(path)
        assert (answer.status, answer.body) == (200, b"ok\n")


async def test_a_server_that_drains_says_so_and_answers_on(tmp_path):
    async with serving(tmp_path, limits=LONG) as run:
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
        drain.cancel()


async def test_a_server_takes_new_connections_and_is_ready_for_as_long_as_it_was_told(
    tmp_path, clock
):
    limits = replace(PATIENT, drain_quiet_seconds=0.0)
    async with serving(tmp_path, limits=limits, shutdown_delay=ENDLESS) as run:
        drain = asyncio.create_task(run.service.drain())
        await asyncio.sleep(0)
        for clock.ahead in (0.0, ENDLESS / 2):
            assert (await run.post(GOOD.encode())).closes
            assert (await run.ops("/readyz")).status == 200
            assert not drain.done()
        clock.ahead = ENDLESS
        await drain
        assert (await run.ops("/readyz")).status == 503


async def test_a_server_that_drains_closes_idle_connections_and_no_others(tmp_path):
    async with serving(tmp_path, limits=LONG) as run:
        idle, begun = await run.connect(), await run.connect()
        for one in (idle, begun):
            assert not (await one.post(GOOD.encode())).closes
        await asyncio.sleep(0.6)
        request = http_post(GOOD.encode())
        await begun.send(request[:-10])
        await until(lambda: run.service._port.busy, "the request begun")
        drain = asyncio.create_task(run.service.drain())
        assert await idle.closed()
        await begun.send(request[-10:])
        assert (await begun.answer()).status == 200
        drain.cancel()


async def test_a_standby_answers_on_and_lets_nobody_stay(tmp_path):
    active = [True]
    async with serving(tmp_path, limits=LONG, keeps_clients=lambda: active[0]) as run:
        idle = await run.connect()
        assert not (await idle.post(GOOD.encode())).closes
        active[0] = False
        assert await idle.closed()
        answer = await (await run.connect()).post(GOOD.encode())
        assert (answer.status, answer.closes) == (200, True)
        assert (await run.ops("/readyz")).status == 200, "it is ready to take over"
        active[0] = True
        assert not (await (await run.connect()).post(GOOD.encode())).closes


async def test_a_drain_ends_when_it_is_quiet(tmp_path, clock):
    limits = replace(LONG, drain_seconds=10 * ENDLESS)
    async with serving(tmp_path, limits=limits) as run:
        drain = asyncio.create_task(run.service.drain())
        await asyncio.sleep(0)
        for turn in range(1, 4):
            clock.ahead = turn * ENDLESS / 2
            await run.post(GOOD.encode())
            assert not drain.done()
        clock.ahead += ENDLESS
        await drain


async def test_a_drain_ends_though_it_is_never_quiet(tmp_path, clock):
    limits = replace(LONG, drain_quiet_seconds=9 * ENDLESS)
    async with serving(tmp_path, limits=limits) as run:
        drain = asyncio.create_task(run.service.drain())
        await asyncio.sleep(0)
        assert not drain.done()
        clock.ahead = 2 * ENDLESS
        await drain


async def test_a_stop_finishes_what_is_in_flight(tmp_path):
    async with serving(tmp_path) as run:
        body = GOOD.encode()
        wire = await run.connect()
        await wire.send(http_post(body[:-1], Content_Length=str(len(body))))
        await until(lambda: run.service._port.busy, "the request begun")
        stop = asyncio.create_task(run.service.stop())
        await until(lambda: run.service._handler.draining, "the listener closed")
        with pytest.raises(OSError):
            await run.connect()
        await wire.send(body[-1:])
        assert (await wire.answer()).status == 200
        await stop


async def test_a_stop_does_not_wait_for_idle_connections(tmp_path):
    async with serving(tmp_path) as run:
        wire = await run.connect()
        await wire.post(GOOD.encode())
        async with patiently():  # a wait would take `body_seconds`, which is longer
            await run.service.stop()
        assert await wire.closed()


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

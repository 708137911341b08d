"""Clients that are slow, too many, or gone: none of them holds the server up."""

import asyncio
import time
from dataclasses import replace

import pytest

from genguard.admission.decode import MAX_BODY_BYTES
from tests.contract.hostile import GOOD
from tests.contract.service import PATIENT, http_post, serving


@pytest.mark.parametrize("size", [1, 7, 65_536])
async def test_chunks_without_a_length_are_read(running, size):
    body = GOOD.encode()
    parts = [body[start : start + size] for start in range(0, len(body), size)]
    chunks = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts)
    wire = await running.connect()
    request = http_post(b"", Content_Length="", Transfer_Encoding="chunked")
    await wire.send(request + chunks + b"0\r\n\r\n")
    assert (await wire.answer()).status == 200


async def test_headers_that_trickle_in_lose_their_connection(tmp_path):
    async with serving(tmp_path, limits=replace(PATIENT, header_seconds=0.2)) as run:
        slow = await run.connect()
        for byte in b"POST":
            await slow.send(bytes([byte]))
        assert await slow.closed()
        assert (await run.post(GOOD.encode())).status == 200
        refused = await run.samples("genguard_refused_requests_total")
        assert refused == {'reason="slow-headers"': 1.0}


async def test_a_connection_that_was_opened_ahead_and_never_used_is_closed_and_accuses_nobody(
    tmp_path,
):
    """Go's client dials one for each request that waits, and then may use another that is free."""
    async with serving(tmp_path, limits=replace(PATIENT, header_seconds=0.2)) as run:
        ahead = [await run.connect() for _ in range(3)]
        for wire in ahead:
            assert await wire.closed()
        assert (await run.post(GOOD.encode())).status == 200
        assert await run.samples("genguard_refused_requests_total") == {}


async def test_nobody_is_slow_for_the_time_in_which_the_server_stood_still(tmp_path):
    limits = replace(PATIENT, header_seconds=1.0)
    async with serving(tmp_path, limits=limits) as run:
        wires = [await run.connect() for _ in range(3)]
        await asyncio.sleep(0.05)  # their deadlines run
        for wire in wires:
            await wire.send(http_post(GOOD.encode(), "/mutate?timeout=30s"))
        time.sleep(1.5)  # what was sent is not read; then deadlines and the sweep are due at once
        for wire in wires:
            assert (await wire.answer()).status == 200
        assert await run.samples("genguard_refused_requests_total") == {}


async def test_an_idle_connection_is_kept_though_headers_have_a_deadline(tmp_path):
    async with serving(tmp_path, limits=replace(PATIENT, header_seconds=0.1)) as run:
        wire, silent = await run.connect(), await run.connect()
        assert (await wire.post(GOOD.encode())).status == 200
        assert await silent.closed(), "a sweep has passed"
        assert (await wire.post(GOOD.encode())).status == 200


@pytest.mark.parametrize("body", [b"", b"{", GOOD[:500].encode()])
async def test_a_body_slower_than_its_deadline_is_refused(tmp_path, body):
    async with serving(tmp_path, limits=replace(PATIENT, body_seconds=0.2)) as run:
        wire = await run.connect()
        await wire.send(http_post(body, Content_Length=str(len(GOOD))))
        answer = await wire.answer()
        assert (answer.status, answer.json["error"]) == (408, "too_slow")
        assert answer.closes
        assert (await run.post(GOOD.encode())).status == 200


async def test_the_deadline_of_the_api_server_shortens_that_of_the_body(running):
    wire = await running.connect()
    await wire.send(http_post(b"{", "/mutate?timeout=1s", Content_Length="100"))
    assert (await wire.answer()).status == 408, "without it the body has longer than this waits"


async def test_a_connection_too_many_is_dropped_and_the_others_work_on(tmp_path):
    async with serving(tmp_path, limits=replace(PATIENT, connections=3)) as run:
        wires = [await run.connect() for _ in range(3)]
        for wire in wires:
            assert (await wire.post(GOOD.encode())).status == 200
        with pytest.raises(ConnectionError):  # before its handshake
            await run.connect()
        refused = await run.samples("genguard_refused_requests_total")
        assert refused == {'reason="too-many-connections"': 1.0}
        assert (await wires[0].post(GOOD.encode())).status == 200
        await wires[1].close()
        assert (await run.post(GOOD.encode())).status == 200


async def test_handshakes_that_hang_keep_nobody_out(tmp_path):
    async with serving(tmp_path, limits=replace(PATIENT, connections=3)) as run:
        kept = await run.connect()
        port = run.service.secure_port
        hanging = [await asyncio.open_connection("127.0.0.1", port) for _ in range(5)]
        assert (await run.post(GOOD.encode())).status == 200
        assert (await kept.post(GOOD.encode())).status == 200
        for _, writer in hanging:
            writer.close()


async def test_a_client_that_leaves_in_the_middle_disturbs_nobody(running, logged):
    for _ in range(5):
        wire = await running.connect()
        await wire.send(http_post(GOOD[:100].encode(), Content_Length=str(len(GOOD))))
        await wire.close()
    assert (await running.post(GOOD.encode())).status == 200
    refused = await running.samples("genguard_refused_requests_total")
    assert refused == {'reason="client_left"': 5.0}
    text = logged()
    assert "handler failed" not in text
    assert "Traceback" not in text


@pytest.mark.parametrize("sends", ["chunks", "a length"])
async def test_bodies_of_which_little_has_come_take_no_room_from_others(tmp_path, sends):
    """A body counts with the bytes that have come, whatever it says that is still to come."""
    fields = {"Content_Length": str(MAX_BODY_BYTES)}
    if sends == "chunks":
        fields = {"Content_Length": "", "Transfer_Encoding": "chunked"}
    async with serving(tmp_path, limits=PATIENT) as run:
        for _ in range(PATIENT.body_bytes_in_flight // MAX_BODY_BYTES + 5):
            wire = await run.connect()
            await wire.send(http_post(b"1\r\n{\r\n", **fields))
        other = await run.connect()
        await other.send(http_post(GOOD[:-1].encode(), Content_Length=str(len(GOOD))))
        await asyncio.sleep(0.05)
        await other.send(GOOD[-1:].encode())
        assert (await other.answer()).status == 200
        assert (await run.samples("genguard_shed_total"))['reason="reading"'] == 0.0

"""Attacks on a running `genguard serve`, with honest traffic beside them; `-s` prints its p99."""

import asyncio
import gzip
import json
import os
import random
import resource
import zlib
from collections import Counter
from collections.abc import Awaitable, Iterable
from contextlib import suppress
from datetime import datetime

import pytest

from tests.cases_loader import load
from tests.contract.costly import COSTLY
from tests.contract.hostile import GOOD
from tests.contract.service import Wire, head, http_post
from tests.contract.victim import Victim, victim
from tests.reviews import make_review
from tests.waiting import patiently, until

MANY = 1_000
AT_ONCE = 50
_BURST, _PER_SECOND = 50, 10
"""Lines of one message that the log takes at once, and then each second: telemetry/logs.py."""


async def close(wires: Iterable[Wire]) -> None:
    for wire in wires:
        wire.writer.transport.abort()
    await asyncio.sleep(0.1)


async def in_turn(making: Iterable[Awaitable[Wire]]) -> list[Wire]:
    """So many at a time that the machine of a test can make them."""
    limit = asyncio.Semaphore(AT_ONCE)

    async def one(made: Awaitable[Wire]) -> Wire:
        async with limit:
            return await made

    return list(await asyncio.gather(*map(one, making)))


async def test_a_thousand_slow_clients_lose_their_connections(tmp_path, on_each_loop):
    async with victim(tmp_path) as run:
        before = run.descriptors

        async def slow() -> Wire:
            # At once: who sends nothing has made no request yet that is refused.
            wire = await run.connect()
            wire.writer.write(b"P")
            return wire

        wires = await in_turn(slow() for _ in range(MANY))
        for byte in b"OST /mut":
            for wire in wires:
                wire.writer.write(bytes([byte]))
            await asyncio.sleep(0.1)
        await run.back_to(before)
        await close(wires)
        dropped = await run.metric('genguard_refused_requests_total{reason="slow-headers"}')
        assert dropped >= MANY / 2  # of most, and of the rest on a machine that is slow as well


async def test_handshakes_that_are_begun_and_never_ended_are_forgotten(tmp_path, on_each_loop):
    """A TLS record that announces 512 bytes of a ClientHello, and no more of it; and silence."""
    async with victim(tmp_path) as run:
        before = run.descriptors
        wires = await in_turn(run.plain() for _ in range(MANY))
        for wire in wires[::2]:
            wire.writer.write(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")
        async with patiently():
            assert all([await wire.closed() for wire in wires])
        await run.back_to(before)
        await close(wires)


GARBAGE = {
    "plain HTTP": http_post(GOOD.encode()),
    "zeros": bytes(4_096),
    "noise": random.Random(8).randbytes(4_096),
    "a record of 64 KiB": b"\x16\x03\x03\xff\xff" + bytes(70_000),
    "an alert": b"\x15\x03\x03\x00\x02\x02\x28",
    "data before a handshake": b"\x17\x03\x03\x00\x10" + bytes(16),
    "SSL 2": b"\x80\x2e\x01\x00\x02\x00\x15\x00\x00\x00\x10" + bytes(40),
    "SSH": b"SSH-2.0-OpenSSH_9.9\r\n",
}


async def test_what_is_no_tls_is_closed_at_once_and_said_nothing_of(tmp_path, on_each_loop):
    async with victim(tmp_path) as run:
        before = run.descriptors
        for _ in range(25):
            for data in GARBAGE.values():
                wire = await run.plain()
                wire.writer.write(data)
                if data == GARBAGE["an alert"]:
                    wire.writer.write_eof()
                assert await wire.closed()
                await wire.close()
        await run.back_to(before)
        assert await run.metric("genguard_open_connections") == 1
        assert {line["message"] for line in run.log} <= {"repaired"}  # of honest reviews


async def test_a_server_that_runs_out_of_descriptors_serves_on_when_they_are_given_back(
    tmp_path, on_each_loop
):
    async with victim(tmp_path) as run:
        before = run.descriptors
        pid = run.run.process.pid
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (before + 20, before + 20))
        wires = await in_turn(run.plain() for _ in range(100))
        await until(lambda: any("accept" in one["message"] for one in run.log), "too few")
        answered = len(run.waited)
        await until(lambda: len(run.waited) > answered, "an answer on a connection that was there")
        await close(wires)
        await run.back_to(before)
        wire = await run.connect()
        assert (await wire.post(GOOD.encode())).status == 200
        await wire.close()
        assert all(len(json.dumps(line)) < 2_000 for line in run.log)


async def test_bodies_of_seven_mebibytes_in_parallel_stay_within_the_memory_of_the_pod(
    tmp_path, on_each_loop
):
    text = GOOD.replace('"SPEC"', json.dumps("x" * (7 * 1024 * 1024 - len(GOOD) - 100)))
    request = http_post(text.encode(), "/mutate?timeout=30s")

    async def send(run: Victim) -> int:
        wire = await run.connect()
        try:
            await wire.send(request)
            async with patiently():
                status = int((await wire.reader.readuntil(b"\r\n")).split()[1])
        except (ConnectionError, asyncio.IncompleteReadError):
            status = 0  # shed before all of it was read
        await close([wire])
        return status

    async with victim(tmp_path) as run:
        before = run.descriptors
        seen = set()
        for _ in range(3):
            seen |= set(await asyncio.gather(*(send(run) for _ in range(40))))
        assert 200 in seen
        assert seen <= {0, 200, 408, 429}, [one for one in run.log if one["level"] == "error"]
        await run.back_to(before)


BOMB = bytes(64 * 1024 * 1024)
BOMBS = {
    "gzip": gzip.compress(BOMB, 1),
    "deflate": zlib.compress(BOMB, 1),
    "br": b"\x5b\xff\xff\xff\x03" * 100,
    "zstd": b"\x28\xb5\x2f\xfd" * 100,
    "gzip, gzip": gzip.compress(gzip.compress(BOMB, 1)),
    "GZIP": gzip.compress(BOMB, 1),
    "identity, gzip": gzip.compress(BOMB, 1),
}


async def test_nothing_is_unpacked(tmp_path, on_each_loop):
    async with victim(tmp_path) as run:
        before = run.most_bytes
        for _ in range(5):
            for encoding, body in BOMBS.items():
                wire = await run.connect()
                sending = asyncio.ensure_future(
                    wire.send(http_post(body, Content_Encoding=encoding))
                )
                answer = await wire.answer()
                assert (answer.status, answer.json["error"]) == (415, "wrong_media_type")
                await close([wire])
                await asyncio.wait([sending])
                sending.exception()
        assert run.most_bytes - before < len(BOMB) / 2


HEADERS = {
    "many small": [(f"X-{n}", "1") for n in range(5_000)],
    "a few large": [(f"X-{n}", "x" * 8_000) for n in range(60)],
    "one without end": [("X", "x" * 4_000_000)],
    "the same again and again": [("X", "1")] * 5_000,
    "names that look alike": [("x" * n, "1") for n in range(1, 1_000)],
}


async def test_headers_without_measure_are_refused_and_not_kept(tmp_path, on_each_loop):
    async with victim(tmp_path) as run:
        before, descriptors = run.most_bytes, run.descriptors
        for _ in range(5):
            for fields in HEADERS.values():
                wire = await run.connect()
                bomb = head("POST /mutate HTTP/1.1", [("Host", "x"), *fields])
                sending = asyncio.ensure_future(wire.send(bomb))
                status = int((await wire.reader.readuntil(b"\r\n")).split()[1])
                assert status in (400, 415)  # it asks for nothing that would be examined
                await close([wire])
                await asyncio.wait([sending])
                sending.exception()
        await run.back_to(descriptors)
        assert run.most_bytes - before < 64 * 1024 * 1024


def smuggling(fields: Iterable[str], body: str) -> bytes:
    """A request whose end two readers may see in two places, and one that hides behind it."""
    begin = ("POST /mutate?timeout=1s HTTP/1.1", "Host: x", "Content-Type: application/json")
    start = "\r\n".join((*begin, *fields, "", body)).encode("latin-1")
    return start + http_post(GOOD.encode(), "/outcome")


@pytest.mark.parametrize("chunk", [1, 1 << 20], ids=["byte-by-byte", "at-once"])
async def test_what_hides_behind_a_request_is_never_answered(tmp_path, on_each_loop, chunk):
    async with victim(tmp_path) as run:
        for case in load("contract/smuggled.yaml", "fields", "body"):
            request = smuggling(case["fields"], case["body"])
            wire = await run.connect()
            for start in range(0, len(request), chunk):
                wire.writer.write(request[start : start + chunk])
                await asyncio.sleep(0)
            # What is sent to a connection that is closed may cost the client its answer.
            with suppress(ConnectionError, asyncio.IncompleteReadError):
                # Or 408, for chunks whose fault came in when the first of them were waited for.
                assert (await wire.answer()).status in (400, 408), case.because
            assert await wire.closed()
            await wire.close()
        text = await run.ops("/metrics")
        assert 'phase="outcome"' not in text


def colliding(count: int) -> list[int]:
    """Numbers of one hash: Python hashes ints modulo 2^61-1."""
    return [n * (2**61 - 1) for n in range(1, count)]


async def test_keys_that_would_collide_cost_no_more_than_others(tmp_path, on_each_loop):
    """A JSON key is text, whose hash is salted; numbers in a list are never hashed."""
    keys = ",".join(f'"{number}":{number}' for number in colliding(50_000))
    numbers = ",".join(map(str, colliding(50_000)))
    bodies = [
        GOOD.replace('"STATUS"', f"{{{keys}}}").encode(),
        GOOD.replace('"SPEC"', f"[{numbers}]").encode(),
        GOOD.replace('"SPEC"', "{" + '"a":1,' * 500_000 + '"a":1}').encode(),
    ]
    async with victim(tmp_path) as run:
        wire = await run.connect()
        for body in bodies * 3:
            assert (await wire.post(body, "/mutate?timeout=60s")).status == 200
        await wire.close()


FEW = 4


async def test_small_bodies_of_many_values_cost_no_honest_client_its_answer(tmp_path, on_each_loop):
    """Every such attack at once. The honest client ends at the first answer that is no 200."""
    async with victim(tmp_path) as run:
        sending = [
            run.statuses((one for number in range(FEW) for one in make(number)), timeout=600)
            for make in COSTLY.values()
        ]
        seen = sum(await asyncio.gather(*sending), Counter[int]())
        assert seen.keys() <= {200, 429}
        assert seen[200] > len(COSTLY) * FEW
        shed = [await run.metric(f'genguard_shed_total{{reason="{why}"}}') for why in SHED]
        assert shed == [0.0, seen[429], 0.0], "none was too late: they are examined apart"


SHED = ("late", "large", "reading")
EVIL = '\x1b[2J\x1b]0;owned\x07<script>alert(1)</script>\r\n{"level":"error"}\u2028\u202e\'"&'


async def test_names_that_would_forge_a_log_line_or_a_page_stay_names(tmp_path, on_each_loop):
    async with victim(tmp_path, "--log-level", "DEBUG") as run:
        wire = await run.connect()
        for version in range(5):
            metadata = {"name": EVIL, "namespace": EVIL, "uid": EVIL, "generation": 2}
            stored = {"metadata": {**metadata, "resourceVersion": str(version)}, "status": {}}
            asked = {**stored, "status": {"observedGeneration": 2, "replicas": version}}
            left = {**stored, "status": {"replicas": version}}
            for phase, new in (("intent", asked), ("mutate", left), ("outcome", left)):
                review = make_review("UPDATE", "deployments", new, stored, subresource="status")
                review["request"] |= {"name": EVIL, "namespace": EVIL}
                review["request"]["userInfo"]["username"] = EVIL
                assert (await wire.post(json.dumps(review).encode(), f"/{phase}")).status == 200
        await wire.close()
        await until(
            lambda: any(line["message"] == "finding opened" for line in run.log), "the finding"
        )
        (found,) = [line for line in run.log if line["message"] == "finding opened"]
        assert found["name"] == EVIL  # in JSON, so it is no line of its own
        listed = json.loads(await run.ops("/api/findings"))["findings"]
        pages = ["/", f"/findings/{listed[0]['id']}", "/objects", "/webhooks"]
        for page in [await run.ops(path) for path in pages]:
            assert "<script>alert(1)" not in page
            assert "\x1b" not in page
        # A user who writes status is the value of a label: it stays within it.
        told = [one for one in (await run.ops("/metrics")).split("\n") if "alert(1)" in one]
        assert all(one.startswith("genguard_observed_generation_total{") for one in told)


async def test_a_flood_of_bad_requests_does_not_fill_the_log(tmp_path, on_each_loop):
    async with victim(tmp_path) as run:
        for _ in range(500):
            wire = await run.connect()
            await wire.send(os.urandom(20) + b"\r\n\r\n")
            assert await wire.closed()
            await wire.close()
        lines = Counter(line["message"] for line in run.log)
        assert await run.metric('genguard_refused_requests_total{reason="bad_http"}') == 500
        first, last = (datetime.fromisoformat(run.log[place]["time"]) for place in (0, -1))
        assert max(lines.values()) <= _BURST + _PER_SECOND * (last - first).total_seconds()


CROWD = 500


async def test_500_clients_that_send_their_reviews_in_pieces_by_turns_get_their_own_answers(
    tmp_path, on_each_loop
):
    """Three reviews of each, cut at random; each client sends one piece before any its next."""
    draw = random.Random(18)

    def pieces(asked: list[dict]) -> list[bytes]:
        data = b"".join(http_post(json.dumps(one).encode(), "/mutate?timeout=30s") for one in asked)
        cuts = sorted(draw.sample(range(1, len(data)), 7))
        return [data[start:end] for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True)]

    async with victim(tmp_path, module="tests.contract.patient") as run:
        wires = await in_turn(run.connect() for _ in range(CROWD))
        asked = [[make_review("CREATE", new={"spec": {}}) for _ in range(3)] for _ in wires]
        for turn in zip(*map(pieces, asked), strict=True):
            sending = list(zip(wires, turn, strict=True))
            draw.shuffle(sending)
            for wire, piece in sending:
                wire.writer.write(piece)
            await asyncio.sleep(0)
        for wire, own in zip(wires, asked, strict=True):
            for one in own:
                answer = await wire.answer()
                assert answer.json["response"]["uid"] == one["request"]["uid"]
        await close(wires)

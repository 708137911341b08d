"""`genguard serve` as a process: signals, exit codes, its log and its recording."""

import asyncio
import contextlib
import json
import resource
import signal
import ssl
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.contract.hostile import CANARY, GOOD
from tests.contract.service import Answer, Wire, head, http_post
from tests.waiting import patiently


@dataclass(slots=True)
class Served:
    """The process, and where its log says that it listens."""

    process: Process
    folder: Path
    fields: dict[str, Any]

    async def ask(self, url: str, request: bytes) -> Answer:
        trust = ssl.create_default_context(cafile=str(self.folder / "ca.crt"))
        port = int(url.rpartition(":")[2])
        wire = await Wire.dialled(port, trust if url.startswith("https") else None)
        try:
            await wire.send(request)
            return await wire.answer()
        finally:
            await wire.close()

    async def said(self, message: str) -> dict[str, Any]:
        """Wait for a line of the log."""
        stream = self.process.stderr
        assert stream is not None
        async with patiently():
            while (line := json.loads(await stream.readline()))["message"] != message:
                pass
        return line

    async def end(self) -> tuple[int, list[dict[str, Any]]]:
        """Wait for the end: the exit code, and the rest of the log."""
        async with patiently():
            _, errors = await self.process.communicate()
        return self.process.returncode or 0, [json.loads(line) for line in errors.splitlines()]


@contextlib.asynccontextmanager
async def served(
    folder: Path, *flags: str, descriptors: tuple[int, int] | None = None, module: str = "webhook"
) -> AsyncIterator[Served]:
    """Start it on free ports and wait until it says where it listens.

    descriptors  the soft and the hard limit that it starts with
    module       what is run: also tests.contract.patient
    """

    def limit() -> None:
        if descriptors is not None:
            resource.setrlimit(resource.RLIMIT_NOFILE, descriptors)

    ports = ("--secure-port", "0", "--ops-port", "0", "--cert-dir", str(folder))
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", module, "serve", *ports, *flags, stderr=PIPE, preexec_fn=limit
    )
    try:
        run = Served(process, folder, {})
        run.fields = await run.said("serving")
        yield run
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def test_sigterm_drains_and_a_second_one_ends_at_once(tmp_path, on_each_loop):
    recording = tmp_path / "reviews"
    flags = ("--record", str(recording), "--log-level", "DEBUG")
    async with served(tmp_path, *flags) as run:
        assert (await run.ask(run.fields["admission"], http_post(GOOD.encode()))).status == 200
        run.process.send_signal(signal.SIGTERM)
        get = head("GET /readyz HTTP/1.1", [("Host", "x")])
        async with patiently():
            while (await run.ask(run.fields["ops"], get)).status != 503:
                await asyncio.sleep(0.01)
        assert (await run.ask(run.fields["admission"], http_post(GOOD.encode()))).closes
        run.process.send_signal(signal.SIGTERM)
        code, lines = await run.end()
    assert code == 0
    messages = [line["message"] for line in lines]
    assert "draining" in messages
    assert messages[-1] == "stopped"
    assert CANARY not in json.dumps(lines)
    assert len(recording.read_bytes().splitlines()) == 2


async def test_sigint_ends_it_at_once(tmp_path, on_each_loop):
    async with served(tmp_path, "--shutdown-delay=3600") as run:
        run.process.send_signal(signal.SIGINT)
        code, lines = await run.end()
    assert (code, lines[-1]["message"]) == (0, "stopped")


@pytest.mark.parametrize("flag", ["--secure-port", "--ops-port"])
async def test_a_port_that_is_taken_is_told_and_ends_the_process(tmp_path, flag):
    taken = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
    async with taken:
        port = str(taken.sockets[0].getsockname()[1])
        ports = {"--secure-port": "0", "--ops-port": "0", flag: port}
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "webhook", "serve", "--cert-dir", str(tmp_path),
            *[word for pair in ports.items() for word in pair], stderr=PIPE,
        )  # fmt: skip
        async with patiently():
            _, errors = await process.communicate()
    assert process.returncode == 1
    text = errors.decode()
    assert "address already in use" in text.lower()
    assert port in text
    assert "Traceback" not in text

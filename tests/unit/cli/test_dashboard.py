"""`genguard dashboard`: the whole verb beside an API server that is played, and its ops port."""

import asyncio
import json
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.unit.cluster.test_port_forward import Node, ops, played, pod

pytestmark = pytest.mark.slow
_SECONDS = 120.0


def kubeconfig(folder: Path, server: str) -> Path:
    """A kubeconfig of the API server at a URL."""
    path = folder / "kubeconfig"
    whole = {
        "clusters": [{"name": "a", "cluster": {"server": server}}],
        "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
        "users": [{"name": "a", "user": {}}],
        "current-context": "a",
    }
    path.write_text(json.dumps(whole))
    return path


@asynccontextmanager
async def run(
    *words: object, env: Mapping[str, str] | None = None
) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run the verb; it is killed at the end, if it has not ended."""
    without = {key: text for key, text in os.environ.items() if key not in ("DISPLAY", "BROWSER")}
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "webhook", "dashboard", *map(str, words),
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, env=without | (env or {}),
    )  # fmt: skip
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def line(stream: asyncio.StreamReader | None) -> str:
    assert stream is not None
    async with asyncio.timeout(_SECONDS):
        return (await stream.readline()).decode().strip()


async def asked(url: str) -> Any:
    async with aiohttp.ClientSession() as session, session.get(f"{url}api/findings") as response:
        return await response.json()


async def test_it_prints_the_url_of_a_forwarded_port_until_it_is_interrupted(tmp_path: Path):
    async with ops() as port, played(Node(pod("a"), port=port)) as cluster:
        words = ("--kubeconfig", kubeconfig(tmp_path, cluster), "--port=0", "--no-browser")
        async with run(*words) as process:
            url = await line(process.stdout)
            assert url.startswith("http://localhost:")
            said = await line(process.stderr)
            assert said == "forwarded from pod a in namespace genguard-system; ^C ends it"
            assert (await asked(url))["host"] == url.removeprefix("http://").rstrip("/")
            process.send_signal(signal.SIGINT)
            assert await process.wait() == 130


async def test_a_browser_is_shown_the_url_if_there_is_one(tmp_path: Path):
    shown = tmp_path / "shown"
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" > {shown}.new\nmv {shown}.new {shown}\n')
    browser.chmod(0o755)
    async with ops() as port, played(Node(pod("a"), port=port)) as cluster:
        words = ("--kubeconfig", kubeconfig(tmp_path, cluster), "--port=0")
        async with run(*words, env={"BROWSER": str(browser)}) as process:
            url = await line(process.stdout)
            async with asyncio.timeout(_SECONDS):
                while not shown.exists():
                    await asyncio.sleep(0.05)
            assert shown.read_text().strip() == url
            process.send_signal(signal.SIGTERM)
            assert await process.wait() == 0


async def test_when_the_pod_has_ended_the_port_leads_to_another_one(tmp_path: Path):
    async with ops() as port:
        node = Node(pod("a"), port=port, status=404)
        async with played(node) as cluster:
            words = ("--kubeconfig", kubeconfig(tmp_path, cluster), "--port=0", "--no-browser")
            async with run(*words) as process:
                url = await line(process.stdout)
                await line(process.stderr)
                node.now = (pod("b"),)
                with pytest.raises(aiohttp.ClientError):
                    await asked(url)
                assert "trying again: " in await line(process.stderr)
                node.status = 101
                async with asyncio.timeout(_SECONDS):
                    while node.asked[-1] != "b:8081":
                        try:
                            await asked(url)
                        except aiohttp.ClientError:
                            await asyncio.sleep(0.1)


async def test_a_port_that_is_taken_and_a_cluster_without_genguard_are_told_in_a_line(
    tmp_path: Path,
):
    async with played(Node(pod("a"))) as cluster:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            words = ("--kubeconfig", kubeconfig(tmp_path, cluster), f"--port={port}")
            async with run(*words) as process:
                assert f"--port {port}" in await line(process.stderr)
                assert await process.wait() == 1
    async with (
        played(Node()) as cluster,
        run("--kubeconfig", kubeconfig(tmp_path, cluster), "--port=0") as process,
    ):
        said = await line(process.stderr)
        assert said == (
            "Error: not installed in namespace genguard-system: `genguard scan` needs nothing"
        )
        assert await process.wait() == 1

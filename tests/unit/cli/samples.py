"""Files that the command line is given."""

import asyncio
import gzip
import json
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from aiohttp import web
from click.testing import CliRunner, Result

from tests.reviews import clobbered
from tests.unit.blame.test_audited import event
from tests.waiting import PATIENCE
from webhook.cli import main

__all__ = ["DEFINITION", "clobbered", "lines", "recorded", "replay", "serve", "write_lines"]

DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.example.org"},
    "spec": {
        "group": "example.org",
        "names": {"plural": "widgets", "kind": "Widget"},
        "versions": [{"name": "v1", "subresources": {}}],
    },
}


def recorded(phase: str, review: dict[str, Any], second: int = 0) -> dict[str, Any]:
    return {"time": f"2026-01-01T00:00:{second:02d}Z", "phase": phase, "review": review}


def write_lines(path: Path, *rows: Any, end: str = "") -> Path:
    """One document a line; a .gz is compressed. `end` follows as it is."""
    content = ("".join(json.dumps(row) + "\n" for row in rows) + end).encode()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


def replay(*arguments: str | Path, stdin: bytes | None = None) -> Result:
    """Run `genguard replay`."""
    return CliRunner().invoke(main, ["replay", *map(str, arguments)], input=stdin)


def lines(result: Result) -> list[dict[str, Any]]:
    """What `-o json` printed."""
    return [json.loads(line) for line in result.stdout.splitlines()]


def serve(*arguments: str | Path) -> Result:
    """Run `genguard serve`, only with flags that are refused before anything is served."""
    result = CliRunner().invoke(main, ["serve", *map(str, arguments)])
    assert isinstance(result.exception, SystemExit), result.exception
    return result


STORED = {"kind": "Deployment", "metadata": {"name": "web"}, "spec": {"replicas": 1}}
LOG = [
    {"at": 0, "by": "alice", "verb": "create", "answer": STORED},
    {"at": 1, "by": "eve", "verb": "delete", "level": "Metadata"},
]


def write_log(path: Path) -> Path:
    """An audit log of an object that was made and deleted."""
    path.write_bytes(b"\n".join(map(event, LOG)) + b"\n")
    return path


@contextmanager
def serving(answers):
    """An ops port that knows these paths."""
    loop, started, found = asyncio.new_event_loop(), threading.Event(), []

    async def answer(request):
        known = answers.get(request.path)
        status, body = (404, b'{"error": "no"}') if known is None else (200, known)
        return web.Response(status=status, body=body, content_type="application/json")

    async def start():
        application = web.Application()
        application.router.add_get("/{path:.*}", answer)
        runner = web.AppRunner(application)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        found.append((runner, site._server.sockets[0].getsockname()[1]))
        started.set()

    thread = threading.Thread(target=lambda: (loop.run_until_complete(start()), loop.run_forever()))
    thread.start()
    started.wait(PATIENCE)
    runner, port = found[0]
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        asyncio.run_coroutine_threadsafe(runner.cleanup(), loop).result(PATIENCE)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()

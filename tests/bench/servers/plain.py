"""A webhook as one would first write it in Python: aiohttp, json, jsonpatch.

It decodes everything, changes a copy and lets jsonpatch find the difference. No metrics, no
memory of other phases, no other kinds.

python -m tests.bench.servers.plain PORT FOLDER
"""

import asyncio
import json
import sys
from base64 import b64encode
from pathlib import Path
from typing import Any

import jsonpatch
from aiohttp import web

from tests.bench.servers.listen import listen
from tests.bench.servers.two_rules import mutated
from webhook.server.limits import KEEPALIVE_SECONDS


async def mutate(request: web.Request) -> web.Response:
    """POST /mutate."""
    review = await request.json()
    asked = review["request"]
    response: dict[str, Any] = {"uid": asked["uid"], "allowed": True}
    given = asked.get("object")
    wanted = mutated(asked)
    if wanted != given:
        patch = jsonpatch.make_patch(given, wanted)
        response["patchType"] = "JSONPatch"
        response["patch"] = b64encode(json.dumps(patch.patch).encode()).decode()
    kind = {"apiVersion": review["apiVersion"], "kind": review["kind"]}
    return web.json_response({**kind, "response": response})


async def main(port: int, folder: Path) -> None:
    """Serve until told to stop."""
    application = web.Application()
    application.add_routes([web.post("/mutate", mutate)])
    runner = web.AppRunner(application, keepalive_timeout=KEEPALIVE_SECONDS, access_log=None)
    await runner.setup()
    try:
        assert runner.server is not None
        await listen(runner.server, port, folder)
    finally:
        await runner.cleanup()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), Path(sys.argv[2])))

"""A webhook as one would first write it in Python: aiohttp, json, jsonpatch.

It decodes everything, changes a copy and lets jsonpatch find the difference. No metrics, no
memory of other phases, no other kinds.

python -m tools.bench.servers.plain PORT FOLDER
"""

import asyncio
import json
import sys
from base64 import b64encode
from pathlib import Path
from typing import Any

import jsonpatch
from aiohttp import web

from tools.bench.servers.listen import serve
from tools.bench.servers.two_rules import mutated


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


if __name__ == "__main__":
    asyncio.run(serve(mutate, int(sys.argv[1]), Path(sys.argv[2]), access_log=None))

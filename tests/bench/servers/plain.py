"""The two rules as one would first write them: aiohttp, json, jsonpatch, for pods alone.

It decodes everything, changes a copy and lets jsonpatch find the difference. No metrics, no
memory of other phases, no other kinds; what it does do is right, so it also serves as the second
opinion on what genguard answers.

python -m tests.bench.servers.plain PORT FOLDER
"""

import asyncio
import copy
import json
import sys
from base64 import b64encode
from pathlib import Path
from typing import Any

import jsonpatch
from aiohttp import web

from tests.bench.servers.listen import listen
from webhook.server.limits import KEEPALIVE_SECONDS


def mutated(request: dict[str, Any]) -> Any:
    """The object with the generation and the observedGenerations that it should have."""
    new: Any = request.get("object")
    old: Any = request.get("oldObject")
    if request["operation"] not in ("CREATE", "UPDATE"):
        return new
    result = copy.deepcopy(new)
    assign_generation(request, result, old)
    if request.get("subResource") == "status":
        preserve_observed_generation(result["status"], old["status"])
    return result


def assign_generation(request: dict[str, Any], pod: dict[str, Any], old: Any) -> None:
    """1 on create, one more when the spec changes, otherwise as it was."""
    metadata = pod["metadata"]
    if request["operation"] == "CREATE":
        metadata["generation"] = 1
        return
    before = old["metadata"].get("generation", 0)
    counts = "subResource" not in request and pod["spec"] != old["spec"]
    metadata["generation"] = before + 1 if counts else before


def preserve_observed_generation(status: dict[str, Any], old: dict[str, Any]) -> None:
    """Put back what is 0, null or absent and was set."""
    keep(status, old)
    conditions = {condition["type"]: condition for condition in old.get("conditions", [])}
    for condition in status.get("conditions", []):
        keep(condition, conditions.get(condition["type"], {}))


def keep(value: dict[str, Any], old: dict[str, Any]) -> None:
    """Keep one observedGeneration."""
    if not value.get("observedGeneration") and old.get("observedGeneration"):
        value["observedGeneration"] = old["observedGeneration"]


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

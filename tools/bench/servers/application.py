"""An aiohttp application as aiohttp's documentation has one: a route, and the access log on.

It reads the body and answers the same every time: what a webhook costs that does nothing.

python -m tools.bench.servers.application PORT FOLDER [--no-access-log]
"""

import asyncio
import logging
import sys
from pathlib import Path

from aiohttp import web

from tools.bench.servers import CONSTANT_ANSWER
from tools.bench.servers.listen import serve


async def mutate(request: web.Request) -> web.Response:
    """POST /mutate."""
    await request.read()
    return web.json_response(CONSTANT_ANSWER)


if __name__ == "__main__":
    quietly = "--no-access-log" in sys.argv
    logging.basicConfig(level=logging.WARNING if quietly else logging.INFO)
    runner = {"access_log": None} if quietly else {}
    asyncio.run(serve(mutate, int(sys.argv[1]), Path(sys.argv[2]), **runner))

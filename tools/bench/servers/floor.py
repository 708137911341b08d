"""The least that aiohttp can do for a review: read it and answer the same bytes every time.

python -m tools.bench.servers.floor PORT FOLDER
"""

import asyncio
import json
import sys
from functools import partial
from pathlib import Path
from typing import Final

from aiohttp import web

from genguard.admission.decode import MAX_BODY_BYTES
from tools.bench.servers import CONSTANT_ANSWER
from tools.bench.servers.listen import KEEPALIVE_SECONDS, listen

ANSWER: Final = json.dumps(CONSTANT_ANSWER, separators=(",", ":")).encode()


async def handle(request: web.BaseRequest) -> web.Response:
    """Read to the end, as a server must before it can use the connection again."""
    await request.read()
    return web.Response(body=ANSWER, content_type="application/json")


async def main(port: int, folder: Path) -> None:
    """Serve until told to stop."""
    loop = asyncio.get_running_loop()
    # aiohttp reads no more than 1 MiB unless it is told so where the request is made.
    request = partial(web.BaseRequest, loop=loop, client_max_size=MAX_BODY_BYTES)
    server = web.Server(
        handle, request_factory=request, keepalive_timeout=KEEPALIVE_SECONDS, access_log=None
    )
    await listen(server, port, folder)


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), Path(sys.argv[2])))

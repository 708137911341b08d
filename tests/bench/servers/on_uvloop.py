"""`genguard serve` with uvloop under it: `python -m tests.bench.servers.on_uvloop serve ...`."""

import asyncio

import uvloop

from webhook.cli import main

if __name__ == "__main__":
    asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())
    main()

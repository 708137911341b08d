"""`genguard serve`: the admission server."""

import asyncio
from typing import Any

import click

from webhook.cli.options import verb
from webhook.serve.app import build
from webhook.server.flags import FILE, options_of, read_config
from webhook.server.settings import Settings
from webhook.tasks.supervisor import Supervisor

_CONFIG = click.Option(
    ["--config"], type=FILE, callback=read_config, is_eager=True, expose_value=False
)


@verb(*options_of(Settings), _CONFIG)
def serve(**flags: Any) -> None:
    """Serve admission reviews over TLS; with no flag it makes its own certificate and enforces."""
    settings = Settings(**flags)
    settings.check()
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        try:
            runner.run(_serve(settings))
        except OSError as error:  # a port, or a file of its own
            raise click.ClickException(str(error)) from error


async def _serve(settings: Settings) -> None:
    async with build(settings, Supervisor()) as app:
        await app.service.run()


def new_event_loop() -> asyncio.AbstractEventLoop:
    """Make an event loop: uvloop's if it is installed, because it needs less processor time."""
    try:
        import uvloop  # noqa: PLC0415 - it may not be installed
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()

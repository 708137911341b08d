"""`genguard dashboard`: the dashboard of an installed genguard, by a forwarded port."""

import asyncio
import os
import sys
import webbrowser
from contextlib import AsyncExitStack, suppress
from typing import Final

import click

from webhook.cli.errors import carry_out
from webhook.cli.options import Access, asks_cluster, verb
from webhook.cli.output import tell

LOCALHOST: Final = "127.0.0.1"
_LOOK_SECONDS: Final = 1.0
_DISPLAYS: Final = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")


@verb()
@click.option("-n", "--namespace", metavar="NAME")
@asks_cluster
@click.option("--port", type=click.IntRange(0, 65535), default=8080, show_default=True)
@click.option("--no-browser", is_flag=True)
def dashboard(*, namespace: str | None, access: Access, port: int, no_browser: bool) -> None:
    """Open the dashboard of the genguard that is installed in a cluster, until interrupted."""
    carry_out(_forward(namespace, access, port, browser=not no_browser), is_endless=True)


async def _forward(namespace: str | None, access: Access, port: int, *, browser: bool) -> None:
    # Imported here: the help needs none of it, and the API client loads for half a second.
    from webhook.cli.asking_server import NotInstalledError, ops_port  # noqa: PLC0415
    from webhook.cluster.port_forward import forwarded  # noqa: PLC0415
    from webhook.cluster.rest import UNREACHED, RefusedError  # noqa: PLC0415
    from webhook.server.connection import naming_flags  # noqa: PLC0415

    async with access.connected() as rest, AsyncExitStack() as end:
        found = await ops_port(namespace, rest)
        with naming_flags(("localhost", LOCALHOST), ("--port", port)):
            forward = await end.enter_async_context(forwarded(rest, found, port))
        url = f"{'https' if found.tls else 'http'}://localhost:{forward.near}/"
        click.echo(url)
        tell(f"forwarded from {found}; ^C ends it")
        # One in the terminal would hide the messages.
        has_screen = sys.platform in ("darwin", "win32") or any(map(os.environ.get, _DISPLAYS))
        if browser and has_screen:
            await asyncio.to_thread(webbrowser.open, url)
        told = ""
        while True:  # lead the port to another pod whenever this one does not answer
            await asyncio.sleep(_LOOK_SECONDS)
            if not forward.trouble:
                continue
            if forward.trouble != told:
                told = forward.trouble
                tell(f"trying again: {told}")
            with suppress(NotInstalledError, RefusedError, *UNREACHED):
                # Otherwise the next connection says so.
                forward.to, forward.trouble = await ops_port(namespace, rest), ""

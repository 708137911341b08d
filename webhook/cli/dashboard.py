"""`genguard dashboard`: the dashboard of an installed genguard, by a forwarded port."""

import asyncio
import os
import sys
import webbrowser
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Final

import click

from webhook.cli.errors import one_line_errors, until_ended
from webhook.cli.options import CONTEXT, KUBECONFIG, examples
from webhook.cli.output import tell

if TYPE_CHECKING:
    from webhook.cluster.port_forward import Forward
    from webhook.cluster.rest import Rest

LOCALHOST: Final = "127.0.0.1"
_LOOK_SECONDS: Final = 1.0
_DISPLAYS: Final = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")


@click.command(
    epilog=examples(
        ("Open the dashboard; ^C ends the forwarded port", "genguard dashboard"),
        ("On a machine without a browser", "genguard dashboard --no-browser"),
        (
            "Of an installation in another namespace, on any free port",
            "genguard dashboard -n guard --port 0",
        ),
    )
)
@click.option(
    "-n",
    "--namespace",
    metavar="NAME",
    help="Where the server runs.  [default: genguard-system]",
)
@KUBECONFIG
@CONTEXT
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8080,
    show_default=True,
    help="The port on this host; 0 takes any free one. Links in alerts lead to 8080.",
)
@click.option("--no-browser", is_flag=True, help="Only print the URL.")
def dashboard(
    *,
    namespace: str | None,
    kubeconfig: str | None,
    context: str | None,
    port: int,
    no_browser: bool,
) -> None:
    """Open the dashboard of the genguard that is installed in a cluster, until interrupted.

    It forwards the ops port of a pod to this host, as kubectl port-forward does, prints the URL and
    opens a browser. It takes the right to list pods and to get and create pods/portforward in the
    namespace. When the pod ends, the port leads to another one.

    The exit code is 0 after SIGTERM, 1 when the cluster or a pod cannot be reached or the port is
    taken, 2 when the command line is wrong, 130 when interrupted.
    """
    with one_line_errors():
        until_ended(_forward(namespace, kubeconfig, context, port, browser=not no_browser))


async def _forward(
    namespace: str | None, kubeconfig: str | None, context: str | None, port: int, *, browser: bool
) -> None:
    # Imported here: the help needs none of it, and the API client loads for half a second.
    from webhook.cli.asking_server import NotInstalledError, ServerChoice  # noqa: PLC0415
    from webhook.cluster.connection import connected, default_kubeconfig  # noqa: PLC0415
    from webhook.cluster.port_forward import find_ops_port, forwarded  # noqa: PLC0415
    from webhook.cluster.rest import Rest  # noqa: PLC0415
    from webhook.server.connection import ListenError, naming_flags  # noqa: PLC0415

    where = ServerChoice(namespace, "").namespace
    async with (
        connected(kubeconfig or default_kubeconfig(), context) as api,
        AsyncExitStack() as end,
    ):
        rest = Rest(api)
        found = await find_ops_port(rest, where)
        if found is None:
            raise NotInstalledError(f"no pod of genguard is ready in namespace {where}")
        try:
            with naming_flags(("localhost", LOCALHOST), ("--port", port)):
                forward = await end.enter_async_context(forwarded(rest, found, port))
        except ListenError as error:
            raise click.ClickException(str(error)) from error
        url = f"{'https' if found.tls else 'http'}://localhost:{forward.near}/"
        click.echo(url)
        tell(f"forwarded from {found}; ^C ends it")
        if browser and _has_browser():
            await asyncio.to_thread(webbrowser.open, url)
        await _keep(rest, where, forward)


async def _keep(rest: "Rest", namespace: str, forward: "Forward") -> None:
    """Lead the port to another pod whenever the one that it leads to does not answer, for ever."""
    from webhook.cluster.port_forward import find_ops_port  # noqa: PLC0415
    from webhook.cluster.rest import UNREACHED, RefusedError  # noqa: PLC0415

    told = ""
    while True:
        await asyncio.sleep(_LOOK_SECONDS)
        if not forward.trouble:
            continue
        if forward.trouble != told:
            told = forward.trouble
            tell(f"trying again: {told}")
        try:
            found = await find_ops_port(rest, namespace)
        except (RefusedError, *UNREACHED):
            continue  # the next connection says so
        if found is not None:
            forward.lead_to(found)


def _has_browser() -> bool:
    """Whether there is a screen to show one on: one in the terminal would hide the messages."""
    return sys.platform in ("darwin", "win32") or any(map(os.environ.get, _DISPLAYS))

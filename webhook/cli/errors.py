"""Ends a verb: what went wrong in one line, the exit code, and signals."""

import asyncio
import signal
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

import click


@contextmanager
def one_line_errors() -> Iterator[None]:
    """Report what a cluster refuses in one line; the exit code is 1, or 130 when interrupted."""
    # Imported when wanted: the client of the Kubernetes API takes half a second to load.
    from webhook.cli.asking_server import NoServerError  # noqa: PLC0415
    from webhook.cluster.install_waits import NotInTimeError  # noqa: PLC0415
    from webhook.cluster.kubeconfig import NoClusterError  # noqa: PLC0415
    from webhook.cluster.rest import UNREACHED, RefusedError  # noqa: PLC0415
    from webhook.objects.served import UnknownTargetError  # noqa: PLC0415

    refused = (RefusedError, NoClusterError, NoServerError, NotInTimeError, UnknownTargetError)
    try:
        yield
    except refused as error:
        raise click.ClickException(str(error)) from error
    except UNREACHED as error:
        raise click.ClickException(f"not reached: {str(error) or type(error).__name__}") from error
    except KeyboardInterrupt:
        raise SystemExit(130) from None


def carry_out(work: Coroutine[Any, Any, None]) -> None:
    """Run to the end. SIGTERM and SIGHUP end it as ^C does: what was begun is undone."""
    received: list[int] = []

    async def until_done() -> None:
        loop, task = asyncio.get_running_loop(), asyncio.ensure_future(work)

        def on_signal(number: int) -> None:
            received.append(number)
            task.cancel()

        for number in (signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, on_signal, number)
        await task

    try:
        asyncio.run(until_done())
    except asyncio.CancelledError:
        raise SystemExit(128 + received[0]) from None

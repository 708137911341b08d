"""Ends a verb: what went wrong in one line, the exit code, and signals."""

import errno
import os
import signal
import sys
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager, suppress
from enum import IntEnum
from http import HTTPStatus
from typing import Any, Final

import click


class ExitCode(IntEnum):
    """What a verb ends with, the same for every verb. After signal N it is 128 + N."""

    DONE = 0  # all is well, or reached, or nothing was found
    FAILED = 1  # something was found, or it could not be done
    USAGE = 2  # the command line is wrong, or a file that a flag names; nothing was done
    TIME_UP = 3  # the answer did not come in time


INTERRUPTED: Final = 128 + signal.SIGINT
PIPE_CLOSED: Final = 128 + signal.SIGPIPE

_OF_A_DISK: Final = frozenset(
    {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS, errno.EBADF}
)
_NEXT_STEPS: Final[dict[int, str]] = {
    HTTPStatus.UNAUTHORIZED: "log in again: the credentials of the kubeconfig are not accepted",
    HTTPStatus.FORBIDDEN: "kubectl auth can-i --list shows what you may do",
}


@contextmanager
def one_line_errors() -> Iterator[None]:
    """Report what a cluster refuses in one line; the exit code is 1, or 130 when interrupted."""
    # Imported when wanted: the client of the Kubernetes API takes half a second to load.
    from webhook.cli.asking_server import NoServerError  # noqa: PLC0415
    from webhook.cluster.install_waits import NotInTimeError  # noqa: PLC0415
    from webhook.cluster.kubeconfig import NoClusterError  # noqa: PLC0415
    from webhook.cluster.rest import UNREACHED, RefusedError, unreached  # noqa: PLC0415
    from webhook.objects.served import UnknownTargetError  # noqa: PLC0415

    try:
        yield
    except (NoClusterError, NoServerError, NotInTimeError, UnknownTargetError) as error:
        raise click.ClickException(str(error)) from error
    except RefusedError as error:
        step = _NEXT_STEPS.get(error.status)
        raise click.ClickException(f"{error}; {step}" if step else str(error)) from error
    except UNREACHED as error:
        if isinstance(error, BrokenPipeError) or getattr(error, "errno", None) in _OF_A_DISK:
            raise  # standard output, and not the API server
        raise click.ClickException(unreached(error)) from error
    except KeyboardInterrupt:
        raise SystemExit(INTERRUPTED) from None


@contextmanager
def system_errors() -> Iterator[None]:
    """Turn what the system ends a verb with into a line and an exit code: ^C, a full disk, a pipe.

    A verb into whose pipe nobody reads any more ends as other programs do, without a word.
    """
    try:
        yield
    except KeyboardInterrupt:
        raise SystemExit(INTERRUPTED) from None
    except BrokenPipeError:
        _give_up_output()
        raise SystemExit(PIPE_CLOSED) from None
    except OSError as error:
        _give_up_output()
        where = error.filename if error.filename is not None else "input or output"
        raise click.ClickException(f"{where}: {error.strerror or error}") from error


def _give_up_output() -> None:
    """Let what is left of the output go nowhere: Python would write it at its end, and complain."""
    # A stream that was closed before the start is None.
    for stream in filter(None, (sys.stdout, sys.stderr)):
        try:
            stream.flush()
        except (OSError, ValueError):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            with suppress(OSError, ValueError):
                os.dup2(nowhere, stream.fileno())
            os.close(nowhere)


def carry_out(work: Coroutine[Any, Any, None]) -> None:
    """Run to the end. SIGTERM and SIGHUP end it as ^C does: what was begun is undone."""
    import asyncio  # noqa: PLC0415 - every verb loads this module, also those that only print

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

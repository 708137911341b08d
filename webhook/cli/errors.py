"""Ends a verb: what went wrong in one line, the exit code, and signals."""

import errno
import os
import signal
import sys
from collections.abc import Coroutine, Iterator, Mapping
from contextlib import contextmanager, suppress
from enum import IntEnum
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

import click

if TYPE_CHECKING:
    from webhook.cluster.rest import RefusedError


class ExitCode(IntEnum):
    """What a verb ends with, the same for every verb. After signal N it is 128 + N."""

    DONE = 0  # all is well, or reached, or nothing was found
    FAILED = 1  # something was found, or it could not be done
    USAGE = 2  # the command line is wrong, or a file that a flag names; nothing was done
    TIME_UP = 3  # the answer did not come in time


INTERRUPTED: Final = 128 + signal.SIGINT
TERMINATED: Final = 128 + signal.SIGTERM
PIPE_CLOSED: Final = 128 + signal.SIGPIPE

_LONGEST: Final = 500
_GRANTS: Final = "attempting to grant RBAC permissions not currently held"
"""How the API server refuses a role (kubernetes pkg/registry/rbac/validation/rule.go)."""
_OF_A_DISK: Final = frozenset(
    {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS, errno.EBADF}
)


def next_step(error: "RefusedError") -> str:
    """Say what to do about a refusal of the API server; "" if only its own words say it."""
    if error.status == HTTPStatus.UNAUTHORIZED:
        return "log in again: the credentials of the kubeconfig are not accepted"
    if error.missing_right:
        return (
            "ask who administers the cluster for this right, and try it by: "
            f"kubectl auth can-i {error.missing_right}"
        )
    if _GRANTS in str(error):
        return "let somebody install it who has these rights, such as a cluster administrator"
    if error.status == HTTPStatus.FORBIDDEN:
        return "kubectl auth can-i --list shows what you may do"
    return ""


def told_unread(unread: Mapping[str, "RefusedError"]) -> str:
    """Say which collections may not be read, and what to do about the first."""
    first = next(iter(unread.values()))
    return f"{', '.join(unread)} may not be read; {next_step(first)}"


@contextmanager
def one_line_errors() -> Iterator[None]:
    """Report what a cluster refuses in one line; the exit code is 1, or 130 when interrupted."""
    # Imported when wanted: the client of the Kubernetes API takes half a second to load.
    from genguard.objects.served import UnknownTargetError  # noqa: PLC0415
    from webhook.cli.asking_server import NoServerError  # noqa: PLC0415
    from webhook.cluster.kubeconfig import NoClusterError  # noqa: PLC0415
    from webhook.cluster.reconcile import NotInTimeError  # noqa: PLC0415
    from webhook.cluster.rest import UNREACHED, RefusedError, unreached  # noqa: PLC0415

    try:
        yield
    except (NoClusterError, NoServerError, NotInTimeError, UnknownTargetError) as error:
        raise click.ClickException(str(error)) from error
    except RefusedError as error:
        text, step = str(error), next_step(error)
        if len(text) > _LONGEST:
            text = f"{text[:_LONGEST]}... ({error.status})"
        raise click.ClickException(f"{text}; {step}" if step else text) from error
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


def until_ended(work: Coroutine[Any, Any, None]) -> None:
    """Carry out what only a signal ends: after SIGTERM, which asks for the end, all went well."""
    try:
        carry_out(work)
    except SystemExit as end:
        raise SystemExit(0 if end.code == TERMINATED else end.code) from None

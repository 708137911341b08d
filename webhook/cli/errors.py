"""Ends a verb: what went wrong in one line, the exit code, and signals."""

import errno
import os
import signal
import sys
from collections.abc import Coroutine, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from difflib import get_close_matches
from enum import IntEnum
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

import click

from genguard.objects.shown import printable

if TYPE_CHECKING:
    from webhook.cluster.rest import RefusedError


class ExitCode(IntEnum):
    """The exit codes, the same for every verb. It is 128 + N after signal N."""

    DONE = 0  # all is well, or reached, or nothing was found
    FAILED = 1  # something was found, or it could not be done
    USAGE = 2  # the command line is wrong, or a file that a flag names; what it names is not there
    TIME_UP = 3  # the answer did not come in time


INTERRUPTED: Final = 128 + signal.SIGINT
PIPE_CLOSED: Final = 128 + signal.SIGPIPE

EXPECTED: Final = {
    ExitCode.FAILED: frozenset(
        {
            "CertificateError", "ListenError", "NoClusterError", "NoServerError",
            "NoSuchFieldError", "NoTargetError", "NotInLogError", "NotInTimeError",
            "NotPublishableError", "StillRegisteredError", "UnreadableFieldsError",
        }
    ),
    ExitCode.USAGE: frozenset(
        {
            "BadDefinitionError", "BadFileError", "BadSettingsError",
            "BadStoreError", "BadTokenFileError", "BadTracingError", "NotFlippableError",
            "NotRestorableError", "NotWatchableError", "UnknownServerVersionError",
            "UnknownTargetError",
        }
    ),
}  # fmt: skip
"""Errors whose message is for the user, by name: importing their modules takes half a second."""
_UNREACHED: Final = frozenset({"ClientError", "TimeoutError", "OSError"})
_LONGEST: Final = 500
_GRANTS: Final = "attempting to grant RBAC permissions not currently held"
"""How the API server refuses a role (kubernetes pkg/registry/rbac/validation/rule.go)."""
_DISK: Final = frozenset(
    {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS, errno.EBADF}
)


class _LineError(click.ClickException):
    """An error that is printed in one line."""

    def __init__(self, message: str) -> None:
        super().__init__(printable(" ".join(message.split())))


class _LineUsageError(_LineError):
    """The command line is wrong."""

    exit_code = ExitCode.USAGE


@contextmanager
def ends_in_one_line(ctx: click.Context | None) -> Iterator[None]:
    """Turn what ends a verb into a line and an exit code: each error, ^C, a full disk, a pipe.

    A verb ends without a word when nobody reads its pipe any more, as other programs do.
    """
    try:
        yield
    except (_LineError, click.exceptions.NoArgsIsHelpError):
        raise
    except click.UsageError as error:
        raise _LineUsageError(_misused(error, error.ctx or ctx)) from error
    except click.ClickException as error:
        raise _LineError(error.format_message()) from error
    except KeyboardInterrupt:
        raise SystemExit(INTERRUPTED) from None
    except BrokenPipeError:
        _give_up_output()
        raise SystemExit(PIPE_CLOSED) from None
    except Exception as error:
        code, message = why_it_ended(error)
        if code is ExitCode.DONE:
            if not isinstance(error, OSError):
                raise
            _give_up_output()
            where = error.filename if error.filename is not None else "input or output"
            message = f"{where}: {error.strerror or error}"
        if code is ExitCode.USAGE:
            raise _LineUsageError(_misused(click.UsageError(message), ctx)) from error
        raise _LineError(message) from error


def why_it_ended(error: Exception) -> tuple[ExitCode, str]:
    """Return the exit code and the message of a verb that could not do what it was asked for.

    DONE for other errors: a mistake in its code, a disk, an output that nobody reads.
    """
    names = {base.__name__ for base in type(error).__mro__}
    for code, expected in EXPECTED.items():
        if names & expected:
            return code, str(error)
    if "RefusedError" in names:
        return ExitCode.FAILED, _refused(error)  # type: ignore[arg-type]
    if names & _UNREACHED and not _is_of_a_file(error):
        from webhook.cluster.rest import unreached  # noqa: PLC0415 - only an error asks

        return ExitCode.FAILED, unreached(error)
    return ExitCode.DONE, ""


def _is_of_a_file(error: Exception) -> bool:
    return isinstance(error, OSError) and (
        error.filename is not None or isinstance(error, BrokenPipeError) or error.errno in _DISK
    )


def _misused(error: click.UsageError, ctx: click.Context | None) -> str:
    """Say what is wrong in a command line, and where to look."""
    verb = ctx.invoked_subcommand if ctx else None
    path = " ".join(filter(None, (ctx.command_path if ctx else "genguard", verb)))
    message = error.format_message().rstrip(".")
    if isinstance(error, click.NoSuchOption):
        near = meant(error.option_name, error.possibilities or ())
        message = f"No such option {error.option_name!r}.{near}".rstrip(".")
    return f"{message}{' See' if message.endswith('?') else '; see'} {path} --help"


def meant(name: str, known: Iterable[str]) -> str:
    """Ask whether the nearest name is meant; "" where none is near."""
    # The dashes at the beginning of every flag do not make two of them alike.
    words = {word.lstrip("-"): word for word in known}
    near = get_close_matches(name.lstrip("-"), words, n=1)
    return f" Did you mean {words[near[0]]}?" if near else ""


def _refused(error: "RefusedError") -> str:
    text, step = str(error), next_step(error)
    if len(text) > _LONGEST:
        text = f"{text[:_LONGEST]}... ({error.status})"
    return f"{text}; {step}" if step else text


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


def _give_up_output() -> None:
    """Drop what is left of the output: Python would write it at its end, and complain."""
    # A stream that was closed before the start is None.
    for stream in filter(None, (sys.stdout, sys.stderr)):
        try:
            stream.flush()
        except (OSError, ValueError):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            with suppress(OSError, ValueError):
                os.dup2(nowhere, stream.fileno())
            os.close(nowhere)


def carry_out(work: Coroutine[Any, Any, None], *, is_endless: bool = False) -> None:
    """Run to the end. SIGTERM and SIGHUP end it as ^C does: what was begun is undone.

    is_endless  only a signal ends it: after SIGTERM, which asks for the end, all went well
    """
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
        is_well = is_endless and received[0] == signal.SIGTERM
        raise SystemExit(0 if is_well else 128 + received[0]) from None

"""The command line: one file a verb; each parses, calls and prints."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import click

from webhook import __version__
from webhook.objects.shown import printable

_VERBS = (
    *("serve", "install", "doctor", "uninstall", "status", "wait"),
    *("explain", "replay", "trace", "lint", "version", "completion"),
)


class _LineError(click.ClickException):
    """Told in one line, whatever raised it."""

    def __init__(self, message: str) -> None:
        super().__init__(printable(" ".join(message.split())))


class _WrongLineError(_LineError):
    """The command line is wrong."""

    exit_code = click.UsageError.exit_code


class _Verbs(click.Group):
    """Loads a verb when it is wanted: the server and the client of the API take a while."""

    def list_commands(self, _: click.Context) -> list[str]:
        return list(_VERBS)

    def get_command(self, _: click.Context, name: str) -> click.Command | None:
        if name not in _VERBS:
            return None
        found: click.Command = getattr(import_module(f"webhook.cli.{name}"), name)
        return found

    def make_context(self, *args: Any, **extra: Any) -> click.Context:
        with _told_in_a_line():
            return super().make_context(*args, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        with _told_in_a_line():
            return super().invoke(ctx)


@contextmanager
def _told_in_a_line() -> Iterator[None]:
    """What went wrong, and where to look: click would print three lines of usage before it."""
    try:
        yield
    except (_LineError, click.exceptions.NoArgsIsHelpError):
        raise
    except click.UsageError as error:
        verb = error.ctx.command_path if error.ctx else "genguard"
        message = f"{error.format_message().rstrip('.')}; see {verb} --help"
        raise _WrongLineError(message) from error
    except click.ClickException as error:
        raise _LineError(error.format_message()) from error


@click.group(
    cls=_Verbs,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="genguard")
def main() -> None:
    """Keep metadata.generation and status.observedGeneration honest, for every kind.

    As kubectl-genguard on PATH it is `kubectl genguard`. The exit code is 0 when all went well, 1
    when something could not be done or was found, 2 when the command line is wrong; each verb says
    what else it means.
    """


def plugin() -> None:
    """`kubectl genguard`: kubectl runs the program kubectl-genguard."""
    main(prog_name="kubectl genguard")

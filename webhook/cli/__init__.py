"""The command line of genguard: one module a verb, with its flags and what it does."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any, Final

import click
from click.shell_completion import CompletionItem

from webhook import __version__
from webhook.objects.shown import printable

VERBS: Final = {
    "serve": "Serve admission reviews over TLS.",
    "install": "Put genguard into a cluster, in proven steps.",
    "doctor": "Tell whether genguard is well in a cluster.",
    "uninstall": "Take genguard out of a cluster.",
    "status": "Tell what is ready, settled and healthy, and what blocks.",
    "wait": "Wait until objects are ready and settled.",
    "findings": "Tell what a running genguard has found, and who causes it.",
    "explain": "Tell when a kind's generation moves, and how it is judged.",
    "blame": "Tell who wrote each field last, and who changed it.",
    "replay": "Judge recorded reviews again.",
    "trace": "Name for certain which webhook changes one object.",
    "lint": "Check webhook configurations for what breaks clusters.",
    "schema": "Print the JSON schema of an output.",
    "version": "Tell which genguard this is, and what it knows.",
    "completion": "Print a script that makes SHELL complete genguard.",
}
"""The module of each verb in this folder, and its line of --help: it is shown, and completed by a
shell, without loading the modules, some of which load for half a second."""


class _LineError(click.ClickException):
    """An error that is printed in one line."""

    def __init__(self, message: str) -> None:
        super().__init__(printable(" ".join(message.split())))


class _UsageLineError(_LineError):
    """The command line is wrong; printed in one line."""

    exit_code = click.UsageError.exit_code


class _Verbs(click.Group):
    """Loads the module of a verb when the verb is run or describes itself."""

    def list_commands(self, _: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, _: click.Context, name: str) -> click.Command | None:
        if name not in VERBS:
            return None
        found: click.Command = getattr(import_module(f"webhook.cli.{name}"), name)
        return found

    def format_commands(self, _: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(VERBS.items()))

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        flags = click.Command.shell_complete(self, ctx, incomplete)
        found = [
            CompletionItem(name, help=text)
            for name, text in VERBS.items()
            if name.startswith(incomplete)
        ]
        return [*found, *flags]

    def make_context(self, *args: Any, **extra: Any) -> click.Context:
        with _errors_in_one_line():
            return super().make_context(*args, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        with _errors_in_one_line():
            return super().invoke(ctx)


@contextmanager
def _errors_in_one_line() -> Iterator[None]:
    """Print what went wrong, and where to look; click would print three lines of usage first."""
    try:
        yield
    except (_LineError, click.exceptions.NoArgsIsHelpError):
        raise
    except click.UsageError as error:
        verb = error.ctx.command_path if error.ctx else "genguard"
        message = f"{error.format_message().rstrip('.')}; see {verb} --help"
        raise _UsageLineError(message) from error
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

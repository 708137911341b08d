"""The command line of genguard: one module a verb, with its flags and what it does."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from importlib import import_module
from types import ModuleType
from typing import Any, Final

import click
from click.shell_completion import CompletionItem

from genguard.objects.shown import printable
from webhook import __version__
from webhook.cli.errors import system_errors

VERBS: Final = {
    "serve": "Serve admission reviews over TLS.",
    "install": "Install genguard into a cluster, and check each step.",
    "doctor": "Check an installation, and print the commands that fix it.",
    "uninstall": "Remove genguard from a cluster.",
    "status": "Say whether objects are ready, settled and healthy.",
    "wait": "Wait until objects are ready and settled.",
    "publish-status": "Write Ready and Settled into custom resources.",
    "findings": "Tell what a running genguard has found, and who causes it.",
    "explain": "Say when a kind's generation grows, or explain a finding.",
    "blame": "Say who wrote each field last, and who changed it.",
    "replay": "Judge recorded reviews again.",
    "trace": "Prove which webhook changes one object.",
    "rules": "Test the rules in CEL by which custom kinds are judged.",
    "lint": "Check webhook configurations for what breaks clusters.",
    "version": "Print the version, and which Kubernetes versions are known.",
    "completion": "Print a script that makes SHELL complete genguard.",
}
"""The module of each verb in this folder, and its line of --help: it is shown, and completed by a
shell, without loading the modules, some of which load for half a second."""


def load(verb: str) -> ModuleType:
    """Import the module of a verb, in which the verb has the same name: publish_status."""
    return import_module(f"webhook.cli.{verb.replace('-', '_')}")


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
        found: click.Command = getattr(load(name), name.replace("-", "_"))
        return found

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in VERBS and not name.startswith("-") and not ctx.resilient_parsing:
            raise click.UsageError(f"No such command {name!r}.{_meant(name, VERBS)}", ctx)
        return super().resolve_command(ctx, args)

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


def _meant(name: str, known: Iterable[str]) -> str:
    """Ask whether the nearest name is meant; "" where none is near."""
    # Every flag begins with the same dashes: that makes none alike.
    words = {one.lstrip("-"): one for one in known}
    near = get_close_matches(name.lstrip("-"), words, n=1)
    return f" Did you mean {words[near[0]]}?" if near else ""


@contextmanager
def _errors_in_one_line() -> Iterator[None]:
    """Print what went wrong, and where to look; click would print three lines of usage first."""
    try:
        with system_errors():
            yield
    except (_LineError, click.exceptions.NoArgsIsHelpError):
        raise
    except click.UsageError as error:
        verb = error.ctx.command_path if error.ctx else "genguard"
        message = error.format_message().rstrip(".")
        if isinstance(error, click.NoSuchOption):
            name, near = error.option_name, error.possibilities or ()
            message = f"No such option {name!r}.{_meant(name, near)}".rstrip(".")
        message += f" See {verb} --help" if message.endswith("?") else f"; see {verb} --help"
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

    As kubectl-genguard on PATH it is `kubectl genguard`.

    \b
    The exit code is the same for every verb:
      0        all went well
      1        something was found, or it could not be done
      2        the command line is wrong, or a file that a flag names; nothing was done
      3        the answer did not come in time: wait, trace
      128 + N  signal N ended it: 130 after ^C, 141 when nobody reads its output
    """  # noqa: D301 - click takes a real \b for lines that stay as they are


def plugin() -> None:
    """`kubectl genguard`: kubectl runs the program kubectl-genguard."""
    main(prog_name="kubectl genguard")

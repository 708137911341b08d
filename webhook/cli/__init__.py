"""The command line of genguard: one module a verb, with its flags and what it does."""

from importlib import import_module
from types import ModuleType
from typing import Any, Final

import click
from click.shell_completion import CompletionItem

from webhook import __version__
from webhook.cli.errors import ends_in_one_line, meant
from webhook.cli.options import CONTEXT, KUBECONFIG, NAMESPACE, TOLD, explain_flags

VERBS: Final = {name: verb.line for name, verb in TOLD.items() if verb.group}
"""The verbs, each with its line of --help; the module of each is in this folder. They are shown,
and completed by a shell, without loading the modules: some load for half a second."""
GROUPS: Final = {
    group: {name: VERBS[name] for name in VERBS if TOLD[name].group == group}
    for group in dict.fromkeys(TOLD[name].group for name in VERBS)
}
"""The verbs by what they are for."""
_HELP: Final = "help"
"""`genguard help VERB` is `genguard VERB --help`, as for kubectl."""
_HELP_TEXT: Final = "Print the help of a verb, with examples: help findings."
_COLUMN: Final = max(map(len, VERBS))
_BESIDE: Final = {"uninstall": "install"}
"""Verbs in the module of another one."""


def load(verb: str) -> ModuleType:
    """Import the module of a verb, in which the verb has the same name: publish_status."""
    return import_module(f"webhook.cli.{_BESIDE.get(verb, verb).replace('-', '_')}")


class _Verbs(click.Group):
    """Loads the module of a verb when the verb is run or describes itself."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, args or ["--help"])

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
        if ctx.resilient_parsing:  # a shell completes
            return super().resolve_command(ctx, args)
        if args[0] == _HELP:
            args = [*args[1:2], "--help"]
        name = args[0]
        if name in (_HELP, "--help"):
            click.echo(ctx.get_help())
            ctx.exit()
        if name not in VERBS:
            raise click.UsageError(f"No such command {name!r}.{meant(name, VERBS)}", ctx)
        found = super().resolve_command(ctx, args)
        _hand_down(ctx, name, found[1])
        return found

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        self.format_commands(ctx, formatter)
        click.Command.format_options(self, ctx, formatter)

    def format_commands(self, _: click.Context, formatter: click.HelpFormatter) -> None:
        for heading, verbs in GROUPS.items():
            more = {_HELP: _HELP_TEXT} if verbs is list(GROUPS.values())[-1] else {}
            with formatter.section(heading):
                rows = {**verbs, **more}.items()
                formatter.write_dl([(name.ljust(_COLUMN), text) for name, text in rows])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        flags = click.Command.shell_complete(self, ctx, incomplete)
        found = [
            CompletionItem(name, help=text)
            for name, text in {**VERBS, _HELP: _HELP_TEXT}.items()
            if name.startswith(incomplete)
        ]
        return [*found, *flags]

    def make_context(self, *args: Any, **extra: Any) -> click.Context:
        with ends_in_one_line(None):
            return super().make_context(*args, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        with ends_in_one_line(ctx):
            return super().invoke(ctx)


def _hand_down(ctx: click.Context, name: str, verb: click.Command | None) -> None:
    """Let a verb have the flags that stand before it; behind it they win, as for kubectl.

    Raises UsageError for a flag that the verb does not take: it would do what nobody asked for.
    """
    given = {key: value for key, value in ctx.params.items() if value is not None}
    taken = {param.name for param in verb.params} if verb else set()
    for flag in ctx.command.params:
        if flag.name in given and flag.name not in taken:
            message = f"{name} takes no {flag.opts[-1]}"
            raise click.UsageError(message, click.Context(verb or ctx.command, ctx, name))
    ctx.default_map = {name: given}


@click.group(
    cls=_Verbs, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@NAMESPACE
@CONTEXT
@KUBECONFIG
@click.version_option(__version__, prog_name="genguard")
def main(**_: str | None) -> None:
    """Find who overwrites status or undoes your changes.

    -n, --context and --kubeconfig may stand before the verb or behind it. `genguard help VERB` has
    examples. As kubectl-genguard on PATH it is `kubectl genguard`.

    \b
    The exit code is the same for every verb:
      0        all went well
      1        something was found, or it could not be done
      2        the command line, or a file of a flag, is wrong; nothing was done
      3        the answer did not come in time: wait, trace
      128 + N  signal N ended it: 130 after ^C, 141 when nobody reads its output
    """  # noqa: D301 - click takes a real \b for lines that stay as they are


explain_flags(main, {})


def plugin() -> None:
    """`kubectl genguard`: kubectl runs the program kubectl-genguard."""
    main(prog_name="kubectl genguard")

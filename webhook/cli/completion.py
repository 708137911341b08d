"""`genguard completion`: what a shell needs to complete verbs, flags and kinds."""

import sys
from typing import Final

import click
from click.shell_completion import ShellComplete, get_completion_class

from webhook.cli import main
from webhook.cli.options import examples

_VARIABLE: Final = "_GENGUARD_COMPLETE"
_NO_FILES: Final = ":4"
"""Cobra's ShellCompDirectiveNoFileComp, which ends what kubectl reads (spf13/cobra
completions.go)."""


@click.command(epilog=examples("completion"))
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print a script that makes SHELL complete genguard.

    \b
    bash   source <(genguard completion bash)       in ~/.bashrc
    zsh    source <(genguard completion zsh)        in ~/.zshrc, after compinit
    fish   genguard completion fish | source        in ~/.config/fish/config.fish

    `kubectl genguard` is completed by kubectl, which finds kubectl_complete-genguard on PATH.

    The exit code is 0, 2 when the command line is wrong.
    """  # noqa: D301 - click takes a real \b for lines that stay as they are
    found = get_completion_class(shell)
    if found is None:
        raise click.ClickException(f"click completes nothing in {shell}")
    click.echo(found(main, {}, "genguard", _VARIABLE).source())


def for_kubectl() -> None:
    """Answer kubectl, which runs kubectl_complete-genguard with the words after `genguard`."""
    *before, incomplete = sys.argv[1:] or [""]
    found = ShellComplete(main, {}, "genguard", _VARIABLE).get_completions(before, incomplete)
    for item in found:
        click.echo(f"{item.value}\t{item.help}" if item.help else item.value)
    click.echo(_NO_FILES)

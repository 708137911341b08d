"""`genguard completion`: what a shell needs to complete verbs, flags and kinds."""

import sys
from typing import Final

import click
from click.shell_completion import BashComplete, FishComplete, ShellComplete, ZshComplete

from webhook.cli import main
from webhook.cli.options import verb

_SHELLS: Final = {"bash": BashComplete, "zsh": ZshComplete, "fish": FishComplete}
_VARIABLE: Final = "_GENGUARD_COMPLETE"
_NO_FILES: Final = ":4"
"""Cobra's ShellCompDirectiveNoFileComp, which ends what kubectl reads (spf13/cobra
completions.go)."""


@verb()
@click.argument("shell", type=click.Choice(list(_SHELLS)))
def completion(shell: str) -> None:
    """Print a script that makes SHELL complete genguard."""
    click.echo(_SHELLS[shell](main, {}, "genguard", _VARIABLE).source())


def for_kubectl() -> None:
    """Answer kubectl, which runs kubectl_complete-genguard with the words after `genguard`."""
    *before, incomplete = sys.argv[1:] or [""]
    found = ShellComplete(main, {}, "genguard", _VARIABLE).get_completions(before, incomplete)
    for item in found:
        click.echo(f"{item.value}\t{item.help}" if item.help else item.value)
    click.echo(_NO_FILES)

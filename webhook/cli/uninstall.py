"""`genguard uninstall`: deletes the registrations first, then everything else."""

import asyncio
from typing import Any

import click

from webhook.cli.errors import carry_out, one_line_errors
from webhook.cli.install import changes_installation
from webhook.cli.options import examples
from webhook.cli.output import ask, tell
from webhook.install.removing import RemovalOptions, prepare, run
from webhook.serve.flags import duration


@click.command(
    epilog=examples(
        ("See what would be deleted", "genguard uninstall --dry-run"),
        (
            "At once stop the API server from calling it, and delete nothing else",
            "genguard uninstall --registrations-only --yes",
        ),
    ),
)
@click.option(
    "--registrations-only",
    is_flag=True,
    help="The off switch: no write is sent to genguard any more, and the server stays.",
)
@click.option(
    "--timeout",
    "seconds",
    default="3m",
    show_default=True,
    type=duration(1),
    help="How long to wait until all is gone.",
)
@changes_installation
def uninstall(*, dry_run: bool, yes: bool, **flags: Any) -> None:
    """Remove genguard from a cluster.

    The registrations go first, so that no write waits for a server that is gone. Nothing is left
    behind; only the namespace stays when it holds anything that is not genguard's.

    The exit code is 0 when it is gone, 1 when that could not be done, 2 when the command line is
    wrong.
    """
    options = RemovalOptions(**flags)
    with one_line_errors():
        steps = asyncio.run(prepare(options))
        if not steps:
            tell("there is nothing of genguard's")
            return
        for step in steps:
            click.echo(f"  {step}")
        if dry_run:
            return
        if not yes:
            ask("Delete these?")
        carry_out(run(steps, options, tell))
        tell("gone")

"""`genguard uninstall`: the registrations first, then everything else that was installed."""

import asyncio
from typing import TYPE_CHECKING

import click

from webhook.cli.administer import ask, carry_out, changes, tell
from webhook.cli.cluster import telling
from webhook.cli.duration import duration

if TYPE_CHECKING:
    from webhook.verbs.removal import RemovalOptions


@click.command()
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
    callback=duration(1),
    help="How long to wait until all is gone.",
)
@changes
def uninstall(
    *,
    registrations_only: bool,
    seconds: float,
    namespace: str,
    kubeconfig: str | None,
    context: str | None,
    dry_run: bool,
    yes: bool,
) -> None:
    """Take genguard out of a cluster.

    The registrations go first, so that no write waits for a server that is gone. Nothing is left
    behind; only the namespace stays when it holds anything that is not genguard's.

    The exit code is 0 when it is gone, 1 when that could not be done.
    """
    from webhook.verbs.removal import RemovalOptions  # noqa: PLC0415

    options = RemovalOptions(kubeconfig, context, namespace, seconds, registrations_only)
    with telling():
        _uninstall(options, dry_run=dry_run, yes=yes)


def _uninstall(options: "RemovalOptions", *, dry_run: bool, yes: bool) -> None:
    from webhook.verbs.removal import prepare, run  # noqa: PLC0415

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
    carry_out(run(steps, options))
    tell("gone")

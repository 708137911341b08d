"""`genguard version`: which genguard this is, and whose rules it knows."""

import platform

import click

from webhook import __version__
from webhook.cli.options import OUTPUT
from webhook.generation.table import known_versions
from webhook.objects.shown import json_line


@click.command()
@OUTPUT
def version(*, output: str) -> None:
    """Tell the version of genguard, and which versions of Kubernetes it knows the rules of.

    The exit code is 0, 2 when the command line is wrong.
    """
    oldest, newest = known_versions()
    python = platform.python_version()
    if output == "json":
        facts = {"genguard": __version__, "kubernetes": [oldest, newest], "python": python}
        click.echo(json_line(facts))
    else:
        click.echo(f"genguard {__version__}, Kubernetes {oldest} to {newest}, Python {python}")

"""`genguard version`: which genguard this is, and whose rules it knows."""

import platform

import click

from genguard.generation.table import known_versions
from webhook import __version__
from webhook.cli.options import verb


@verb()
def version() -> None:
    """Print the version of genguard, and which versions of Kubernetes it knows."""
    known = "Kubernetes {} to {}".format(*known_versions())
    click.echo(f"genguard {__version__}, {known}, Python {platform.python_version()}")

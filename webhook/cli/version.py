"""`genguard version`: which genguard this is, and whose rules it knows."""

import platform

import click
import msgspec

from genguard.generation.table import known_versions
from webhook import __version__
from webhook.cli.options import examples
from webhook.cli.output import Format, output_option, print_objects


class VersionFacts(msgspec.Struct, frozen=True):
    """Which genguard this is; `kubernetes`: the oldest and the newest version that it knows."""

    genguard: str
    kubernetes: tuple[str, str]
    python: str


@click.command(
    epilog=examples(
        ("For people", "genguard version"),
        ("For programs", "genguard version -o json"),
    ),
)
@output_option(
    *("table", "json", "yaml", "jsonpath"), text="A line for people, or an object for programs."
)
def version(*, output: Format) -> None:
    """Print the version of genguard, and which versions of Kubernetes it knows.

    The exit code is 0, 2 when the command line is wrong.
    """
    oldest, newest = known_versions()
    facts = VersionFacts(__version__, (oldest, newest), platform.python_version())
    if output.is_table:
        known = f"Kubernetes {oldest} to {newest}"
        click.echo(f"genguard {facts.genguard}, {known}, Python {facts.python}")
    else:
        print_objects([facts], output)

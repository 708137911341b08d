"""`genguard status`: whether one can go home now, and if not, why not."""

import sys
import time
from collections.abc import Iterable, Iterator
from typing import Any

import click
import msgspec
import yaml

from webhook.cli import terminal
from webhook.cli.objects import FileObjects
from webhook.status.drawing import kstatus_table, table
from webhook.status.forest import Node, grow
from webhook.status.judged import Judged, judge
from webhook.status.line import line

_OUTPUTS = ("table", "wide", "json", "yaml", "kstatus")


@click.command()
@click.option(
    "-f",
    "--filename",
    "files",
    multiple=True,
    metavar="FILE|-",
    help="The objects of a file as they stand there: YAML, JSON, Lists, or one a line. Needs no "
    "cluster.",
)
@click.option(
    "-o", "output", type=click.Choice(_OUTPUTS), default="table", show_default=True,
    help="json and yaml: one line, or document, an object.",
)  # fmt: skip
def status(files: tuple[str, ...], output: str) -> None:
    """Tell whether objects are ready, settled and healthy, and which fields block.

    The exit code is 0 whatever was found, and 1 when something could not be read.
    """
    objects = FileObjects(files)
    if output == "json":
        # At once and without a tree: a file may be longer than the memory.
        for document in objects:
            _print_json(judge(document, at=time.time()))
    else:
        _print(grow(list(objects), at=time.time()), output)
    sys.exit(1 if objects.unread else 0)


def _print(roots: tuple[Node, ...], output: str) -> None:
    if output == "json":
        for judged in _each(roots):
            _print_json(judged)
    elif output == "yaml":
        found = [msgspec.to_builtins(_line(judged)) for judged in _each(roots)]
        click.echo(
            yaml.safe_dump_all(found, sort_keys=False, explicit_start=True, allow_unicode=True),
            nl=False,
        )
    else:
        rows = kstatus_table(roots) if output == "kstatus" else table(roots, wide=output == "wide")
        for text in terminal.lines(rows):
            click.echo(text)


def _each(roots: Iterable[Node]) -> Iterator[Judged]:
    return (node.judged for root in roots for node in root.walk())


def _line(judged: Judged) -> dict[str, Any]:
    return line(judged.view, judged.kstatus, judged.argo, judged.rollout)


def _print_json(judged: Judged) -> None:
    click.echo(msgspec.json.encode(_line(judged)).decode())

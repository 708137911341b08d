"""`genguard status`: whether one can go home now, and if not, why not."""

import asyncio
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click
import msgspec
import yaml

from webhook.cli import terminal
from webhook.cli.cluster import asks_cluster, namespace_of, telling
from webhook.cli.objects import MAX_LINE, FileObjects
from webhook.objects.served import UnknownTargetError
from webhook.objects.shown import json_line, printable
from webhook.status.assessment import Assessment, assess
from webhook.status.drawing import Row, kstatus_table, table
from webhook.status.targets import RequestedTarget, parse_targets
from webhook.status.trees import Node, build_trees

if TYPE_CHECKING:
    from webhook.verbs.following import Sight

_OUTPUTS = ("table", "wide", "json", "yaml", "kstatus")


@click.command(short_help="Tell what is ready, settled and healthy, and what blocks.")
@click.option(
    "-f",
    "--filename",
    "files",
    multiple=True,
    metavar="FILE|-",
    help="The objects of a file as they stand there: YAML, JSON, Lists, or one a line. Needs no "
    "cluster.",
)
@click.option("-w", "--watch", is_flag=True, help="Again after every change, until interrupted.")
@click.option(
    "-o",
    "output",
    type=click.Choice(_OUTPUTS),
    default="table",
    show_default=True,
    help="json and yaml: a line, or document, an object.",
)
@MAX_LINE
@asks_cluster
def status(
    words: tuple[str, ...],
    files: tuple[str, ...],
    *,
    watch: bool,
    output: str,
    max_line: int,
    **flags: Any,
) -> None:
    """Tell whether objects are ready, settled and healthy, and which fields block.

    KIND is a kind, plural or short name: deploy/web, deployments.apps/web. Without any, the
    workloads of the namespace are told. Each object comes with everything that it owns.

    The exit code is 0 whatever the answer, 1 when something could not be read, 2 when the command
    line is wrong.
    """
    if not files:
        with telling():
            sys.exit(_of_cluster(words, output, watch=watch, **flags))
    if words or watch or any(flags.values()):
        raise click.UsageError("-f needs no cluster: leave out everything but -o and --max-line")
    objects = FileObjects(files, max_line)
    if output == "json":
        # At once and without a tree: a file may be longer than the memory.
        for document in objects:
            _print_json(assess(document, at=time.time()))
    else:
        _print(build_trees(list(objects), at=time.time()), output)
    sys.exit(1 if objects.unread else 0)


def _of_cluster(
    words: tuple[str, ...],
    output: str,
    *,
    watch: bool,
    kubeconfig: str | None,
    context: str | None,
    namespace: str | None,
    all_namespaces: bool,
    selector: str,
    server: str | None,
) -> int:
    asked = _asked(words, selector)
    from webhook.cluster.target import default_kubeconfig  # noqa: PLC0415
    from webhook.verbs.looking import LookOptions, look  # noqa: PLC0415

    kubeconfig = kubeconfig or default_kubeconfig()
    within = namespace_of(kubeconfig, context, namespace, asked, every=all_namespaces)
    options = LookOptions(
        kubeconfig, context, tuple(asked), within, selector, server, everything=not words
    )
    show = _shown_again(output) if watch else lambda sight: _print(sight.roots, output)
    missing = asyncio.run(look(options, show, _tell, watch=watch))
    for one in missing:
        _tell(f"there is no {one}")
    return 1 if missing else 0


def _asked(words: Sequence[str], selector: str) -> list[RequestedTarget]:
    try:
        asked = parse_targets(words)
    except UnknownTargetError as error:
        raise click.UsageError(str(error)) from error
    if selector and any(one.name for one in asked):
        raise click.UsageError("an object is chosen by its name or by -l, not by both")
    return asked


def _print(roots: Sequence[Node], output: str, *, headless: bool = False) -> None:
    if output == "json":
        for assessment in _each(roots):
            _print_json(assessment)
    elif output == "yaml":
        _print_yaml(_each(roots))
    elif roots:
        for text in terminal.lines(_rows(roots, output))[headless:]:
            click.echo(text)


def _shown_again(output: str) -> Callable[["Sight"], None]:
    """On a terminal a table is drawn over the last one; elsewhere, what changed is printed."""
    if output not in ("json", "yaml") and terminal.is_terminal():
        screen = terminal.Screen()
        return lambda sight: screen.draw(_rows(sight.roots, output))
    told: dict[str, dict[str, Any]] = {}

    def show(sight: "Sight") -> None:
        for assessment in _each(sight.roots):
            now = assessment.to_line()
            if told.get(assessment.view.uid) != now:
                _print([Node(assessment, ())], output, headless=bool(told))
                told[assessment.view.uid] = now

    return show


def _rows(roots: Sequence[Node], output: str) -> list[Row]:
    return kstatus_table(roots) if output == "kstatus" else table(roots, wide=output == "wide")


def _each(roots: Iterable[Node]) -> Iterator[Assessment]:
    return (node.assessment for root in roots for node in root.walk())


def _print_json(assessment: Assessment) -> None:
    click.echo(json_line(assessment.to_line()))


def _print_yaml(every: Iterable[Assessment]) -> None:
    found = [msgspec.to_builtins(assessment.to_line()) for assessment in every]
    text = yaml.safe_dump_all(found, sort_keys=False, explicit_start=True)
    click.echo(text, nl=False)


def _tell(text: str) -> None:
    click.echo(printable(text), err=True)

"""`genguard status`: what is ready, settled and healthy, and which fields block."""

import asyncio
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec
import yaml

from webhook.cli import output as terminal
from webhook.cli.errors import one_line_errors
from webhook.cli.files import FileObjects
from webhook.cli.options import MAX_LINE, asks_cluster, namespace_of
from webhook.cli.output import Tell, tell
from webhook.objects.served import Served, UnknownTargetError
from webhook.objects.shown import json_line
from webhook.status.assessment import (
    Assessment,
    assess,
)
from webhook.status.drawing import Row, kstatus_table, table
from webhook.status.targets import (
    RequestedTarget,
    WatchTarget,
    parse_targets,
    resolve_targets,
)
from webhook.status.trees import (
    Node,
    build_trees,
)

if TYPE_CHECKING:
    from webhook.cli.following import Sight
    from webhook.cluster.rest import Rest


_TICK: Final = 1.0
"""Seconds after which time alone may have changed the answer."""
_OUTPUTS = ("table", "wide", "json", "yaml", "kstatus")


@dataclass(frozen=True, slots=True)
class _ClusterOptions:
    """The flags of a run that asks a cluster."""

    kubeconfig: str
    context: str | None
    asked: tuple[RequestedTarget, ...]
    namespace: str
    selector: str
    server: str | None
    everything: bool
    """No kind was named: kinds that are not served, or may not be read, are left out."""


async def _show(
    options: _ClusterOptions, show: Callable[["Sight"], None], tell: Tell, *, watch: bool
) -> list[WatchTarget]:
    """Show the objects once, or with `watch` after each change and each second, for ever.

    Returns the objects that do not exist. Raises NoClusterError, UnknownTargetError, RefusedError,
    NoServerError or one of UNREACHED.
    """
    # Imported here: status -f needs none of it, and the API client loads for half a second.
    from webhook.cli.following import following, memories  # noqa: PLC0415
    from webhook.cluster.connection import connected  # noqa: PLC0415
    from webhook.cluster.discovery import discover  # noqa: PLC0415
    from webhook.cluster.rest import Rest  # noqa: PLC0415

    async with connected(options.kubeconfig, options.context) as api:
        rest = Rest(api)
        kinds = await discover(rest)
        found = await _readable(rest, options, kinds, tell)
        known = await memories(options.server, options.namespace) if options.server else {}
        async with following(rest, kinds, found, tell, known) as objects:
            while True:
                sight = await objects.sight(_TICK)
                if sight is not None:
                    show(sight)
                    if not watch:
                        return [one for one in found if one.name and not sight.there[one]]


async def _readable(
    rest: "Rest", options: _ClusterOptions, kinds: list[Served], tell: Tell
) -> list[WatchTarget]:
    """The objects that are asked for, as far as they are served and may be read."""
    from webhook.cluster.rest import RefusedError  # noqa: PLC0415

    found = []
    for asked in options.asked:
        try:
            (one,) = resolve_targets([asked], kinds, options.namespace, options.selector)
            await rest.get(one.served.path(one.namespace), limit="1", **one.list_parameters)
        except UnknownTargetError:
            if not options.everything:
                raise
        except RefusedError as error:
            if not options.everything or error.status != HTTPStatus.FORBIDDEN:
                raise
            tell(str(error))
        else:
            found.append(one)
    return found


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
    """Say whether objects are ready, settled and healthy, and which fields block.

    KIND is a kind, plural or short name: deploy/web, deployments.apps/web. Without any, the
    workloads of the namespace are told. Each object comes with everything that it owns.

    The exit code is 0 whatever the answer, 1 when something could not be read, 2 when the command
    line is wrong.
    """
    if not files:
        with one_line_errors():
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
    from webhook.cluster.connection import default_kubeconfig  # noqa: PLC0415

    kubeconfig = kubeconfig or default_kubeconfig()
    within = namespace_of(kubeconfig, context, namespace, asked, every=all_namespaces)
    options = _ClusterOptions(
        kubeconfig, context, tuple(asked), within, selector, server, everything=not words
    )
    show = _shown_again(output) if watch else lambda sight: _print(sight.roots, output)
    missing = asyncio.run(_show(options, show, tell, watch=watch))
    for one in missing:
        tell(f"there is no {one}")
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

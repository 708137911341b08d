"""`genguard status`: what is ready, settled and healthy, and which fields block."""

import asyncio
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from genguard.formats.json_path import JsonPath
from genguard.formats.nesting import is_unreadable
from genguard.objects.served import Served, UnknownTargetError
from genguard.status.assessment import Judge, StatusLine, assess
from genguard.status.drawing import Row, kstatus_table, table
from genguard.status.targets import WatchTarget
from genguard.status.trees import Node, build_trees
from webhook.cli import output as terminal
from webhook.cli.errors import one_line_errors, told_unread
from webhook.cli.files import MAX_LINE, FileObjects
from webhook.cli.options import FILENAME_HELP, RECURSIVE, asks_cluster, examples
from webhook.cli.output import (
    NO_HEADERS,
    SORT_BY,
    Format,
    Tell,
    in_order,
    output_option,
    print_objects,
    tell,
)
from webhook.cli.rules import RULES, judging
from webhook.cli.targets import Targets, asked_by, connected_to, try_list

if TYPE_CHECKING:
    from genguard.blame.stuck import Culprits
    from webhook.cli.following import FollowedLine, Snapshot
    from webhook.cluster.rest import RefusedError, Rest


_TICK: Final = 1.0
"""Seconds after which time alone may have changed the answer."""
_OUTPUTS = ("table", "wide", "json", "yaml", "name", "jsonpath", "custom-columns", "kstatus")
_ASKED_FOR: Final = ("name", "custom-columns")
"""Outputs without what the objects own."""


class _Shown(NamedTuple):
    """What was shown once.

    missing         the objects that were asked for and do not exist
    unread          collections that may not be listed, and that the objects may be in
    open_findings   how many findings of severity warning or critical are about what is shown
    has_unreadable  whether an object cannot be decoded
    """

    missing: list[WatchTarget]
    unread: Mapping[str, "RefusedError"]
    open_findings: int
    has_unreadable: bool


async def _show(
    targets: Targets,
    show: Callable[["Snapshot", "Culprits | None"], None],
    tell: Tell,
    *,
    everything: bool,
    watch: bool,
) -> _Shown:
    """Show the objects once, or with `watch` after each change and each second, for ever.

    A server is asked for findings about them. With `everything`, no kind was named: kinds that are
    not served, or may not be read, are left out.
    Raises NoClusterError, UnknownTargetError, RefusedError, NoServerError or one of UNREACHED.
    """
    # Imported here: status -f needs none of it, and the API client loads for half a second.
    from webhook.cli.following import is_stuck  # noqa: PLC0415
    from webhook.cluster.discovery import discover  # noqa: PLC0415

    async with connected_to(targets) as rest:
        kinds = await discover(rest)
        found, unread = await _readable(rest, targets, kinds, tell, everything=everything)
        async with targets.followed(rest, kinds, found, tell) as (objects, culprits):
            culprits.needed = bool(targets.server.server)
            while True:
                snapshot = await objects.next_snapshot(_TICK)
                if snapshot is None:
                    continue
                culprits.needed = culprits.needed or any(map(is_stuck, snapshot.roots))
                if not watch:
                    show(snapshot, await culprits.now())
                    missing = [one for one in found if one.name and not snapshot.there[one]]
                    unread |= snapshot.unread
                    number = culprits.known.count_open(snapshot.roots) if culprits.known else 0
                    return _Shown(missing, unread, number, _has_unreadable(snapshot))
                culprits.look()
                show(snapshot, culprits.known)


def _has_unreadable(snapshot: "Snapshot") -> bool:
    every = (node for root in snapshot.roots for node in root.walk())
    return any(is_unreadable(node.assessment.document) for node in every)


async def _readable(
    rest: "Rest", targets: Targets, kinds: list[Served], tell: Tell, *, everything: bool
) -> tuple[list[WatchTarget], dict[str, "RefusedError"]]:
    """The objects that are asked for, as far as they are served, and which may not be read."""
    from webhook.cluster.rest import RefusedError  # noqa: PLC0415

    found, unread = [], {}
    for asked in targets.asked:
        try:
            one = targets.resolve(kinds, asked)
            await try_list(rest, one)
        except UnknownTargetError:
            if not everything:
                raise
        except RefusedError as error:
            if not everything or error.status != HTTPStatus.FORBIDDEN:
                raise
            tell(str(error))
            unread[str(one)] = error
        else:
            found.append(one)
    return found, unread


@click.command(
    epilog=examples(
        ("The workloads of the current namespace, each with what it owns", "genguard status"),
        ("One Deployment, until interrupted", "genguard status deploy/web -n shop -w"),
        ("Objects by their labels, in every namespace", "genguard status deploy -l app=web -A"),
        (
            "The objects of a file, as they stand there; no cluster is asked",
            "genguard status -f backup.yaml",
        ),
        (
            "In columns of your own, and sorted",
            "genguard status deploy --sort-by=.name -o custom-columns=N:.name,IS:.health",
        ),
    ),
)
@click.option(
    "-f",
    "--filename",
    "files",
    multiple=True,
    metavar="FILE|FOLDER|URL|-",
    help="The objects as they stand there: YAML, JSON, Lists, or one a line. Needs no cluster. "
    f"It is {FILENAME_HELP}.",
)
@RECURSIVE
@click.option("-w", "--watch", is_flag=True, help="Again after every change, until interrupted.")
@output_option(
    *_OUTPUTS,
    text="json, yaml and jsonpath: a line or document for each object, with those that it owns; "
    "docs/schemas/status.json has the fields. name and custom-columns: only what was asked for.",
)
@SORT_BY
@NO_HEADERS
@RULES
@MAX_LINE
@asks_cluster
def status(
    words: tuple[str, ...],
    files: tuple[str, ...],
    *,
    recursive: bool,
    watch: bool,
    output: Format,
    order: JsonPath | None,
    headless: bool,
    max_line: int,
    rules: Path | None,
    **flags: Any,
) -> None:
    """Say whether objects are ready, settled and healthy, and which fields block.

    KIND is a kind, plural or short name: deploy/web, deployments.apps/web. Without any, the
    workloads of the namespace are told. Each object comes with everything that it owns. Open
    findings of a genguard in the cluster, or of --server, stand beneath the object that they are
    about, with who is to blame. They do not change its health, which is that of the object alone.

    The exit code is 0 whatever the status, 1 when something could not be read, 2 when the command
    line is wrong. With --server it is also 1 when a warning or critical finding is open about an
    object that is shown.
    """
    output = output.listing(order, headless=headless, watch=watch)
    with judging(rules) as judge:
        if not files:
            with one_line_errors():
                sys.exit(_of_cluster(words, output, watch=watch, judge=judge, **flags))
        if words or watch or any(flags.values()):
            message = "-f needs no cluster: leave out everything but -o, --rules and --max-line"
            raise click.UsageError(message)
        objects = FileObjects(files, max_line, recursive=recursive)
        if not output.is_table:
            # At once and without a tree: a file may be longer than the memory.
            lines = (
                assess(document, at=time.time(), judge=judge).to_line() for document in objects
            )
            print_objects(in_order(lines, order, lambda line: line), output, _name)
        else:
            _print(build_trees(list(objects), at=time.time(), judge=judge), output)
    sys.exit(1 if objects.unread else 0)


def _of_cluster(
    words: tuple[str, ...], output: Format, *, watch: bool, judge: Judge, **flags: Any
) -> int:
    targets = Targets.of(asked_by(words, flags["selector"]), judge, **flags)
    within = targets.namespace
    show = _shown_again(output) if watch else _shown_once(output, within)
    shown = asyncio.run(_show(targets, show, tell, everything=not words, watch=watch))
    for one in shown.missing:
        tell(f"there is no {one}")
    if not words and within and not flags["namespace"]:
        tell(f"only namespace {within} is shown: -A shows all, -n NAMESPACE another")
    if shown.unread:
        tell(f"this is not all: {told_unread(shown.unread)}")
    if shown.open_findings:
        from webhook.cli.following import open_findings  # noqa: PLC0415

        tell(open_findings(shown.open_findings))
    # Without --server it would depend on whether one could be reached.
    is_partial = shown.missing or shown.unread or shown.has_unreadable
    return 1 if is_partial or (shown.open_findings and flags["server"]) else 0


def _shown_once(output: Format, namespace: str) -> Callable[["Snapshot", "Culprits | None"], None]:
    def show(snapshot: "Snapshot", known: "Culprits | None") -> None:
        _print(snapshot.roots, output, known)
        if not snapshot.roots and not any(one.name for one in snapshot.there):
            where = f" in namespace {namespace}" if namespace else ""
            tell(f"No objects found{where}.")

    return show


def _print(
    roots: Sequence[Node],
    output: Format,
    known: "Culprits | None" = None,
    *,
    headless: bool = False,
) -> None:
    roots = list(in_order(roots, output.order, lambda root: root.assessment.to_line()))
    if not output.is_table:
        print_objects(_each(_printed(roots, output), known), output, _name, headless=headless)
    elif roots:
        for text in terminal.lines(
            _rows(roots, output, known), headless=headless or output.headless
        ):
            click.echo(text)


def _printed(roots: Iterable[Node], output: Format) -> Iterator[Node]:
    """Yield the objects that -o prints: names and columns only of what was asked for."""
    for root in roots:
        yield from [root] if output.name in _ASKED_FOR else root.walk()


def _shown_again(output: Format) -> Callable[["Snapshot", "Culprits | None"], None]:
    """On a terminal a table is drawn over the last one; elsewhere, what changed is printed."""
    if output.is_table and terminal.is_terminal():
        screen = terminal.Screen()
        return lambda snapshot, known: screen.draw(
            _rows(snapshot.roots, output, known)[output.headless :]
        )
    printed: dict[str, StatusLine] = {}

    def show(snapshot: "Snapshot", known: "Culprits | None") -> None:
        nodes = list(_printed(snapshot.roots, output))
        for node, now in zip(nodes, _each(nodes, known), strict=True):
            if printed.get(now.uid) != now:
                _print([Node(node.assessment, ())], output, known, headless=bool(printed))
                printed[now.uid] = now

    return show


def _rows(roots: Sequence[Node], output: Format, known: "Culprits | None") -> list[Row]:
    if output.name == "kstatus":
        return kstatus_table(roots)
    if known is None:
        return table(roots, wide=output.name == "wide")
    return table(
        roots,
        wide=output.name == "wide",
        blame=lambda view: [str(culprit) for culprit in known.of(view)],
    )


def _each(nodes: Iterable[Node], known: "Culprits | None") -> Iterator["FollowedLine"]:
    # Imported here: status -f needs none of it.
    from webhook.cli.following import with_culprits  # noqa: PLC0415

    return (with_culprits(node.assessment, known) for node in nodes)


def _name(line: StatusLine) -> str:
    """`deployment.apps/web`, as kubectl prints names."""
    return f"{line.kind.lower()}{f'.{line.group}' if line.group else ''}/{line.name}"

"""`genguard status`: what is ready, settled and healthy, and which fields block."""

import asyncio
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

from genguard.blame.stuck import Culprit, Culprits
from genguard.status.assessment import AskRules, StatusLine, assess
from genguard.status.drawing import Row, table
from genguard.status.trees import Node, build_trees
from webhook.cli.errors import ExitCode, told_unread
from webhook.cli.files import MAX_LINE, FileObjects
from webhook.cli.options import RECURSIVE, Access, asks_objects, filenames, verb
from webhook.cli.output import Again, Format, Listing, lists, tell
from webhook.cli.rules import RULES, rule_evaluator

if TYPE_CHECKING:
    from webhook.cli.object_watch import Snapshot

_ASKED_FOR: Final = ("name", "custom-columns")
"""Outputs without what the objects own."""
_SPARE: Final = (
    *("RECONCILED", "GENERATION", "TERMINATING", "KUBECTL", "ARGO", "KSTATUS"),
    *("PROGRESS", "HEALTH", "SETTLED"),
)


@verb()
@filenames("FILE|FOLDER|-")
@RECURSIVE
@click.option("-w", "--watch", is_flag=True)
@lists
@RULES
@MAX_LINE
@asks_objects
def status(
    *,
    words: tuple[str, ...],
    files: tuple[str, ...],
    recursive: bool,
    watch: bool,
    output: Format,
    max_line: int,
    rules: Path | None,
    access: Access,
    **flags: Any,
) -> None:
    """Say whether objects are ready, settled and healthy, and which fields block."""
    with rule_evaluator(rules) as ask_rules:
        if not files:
            sys.exit(_of_cluster(words, output, access, ask_rules, watch=watch, **flags))
        if words or watch or any(flags.values()) or any(access):
            message = "-f needs no cluster: leave out everything but -o, --rules and --max-line"
            raise click.UsageError(message)
        objects = FileObjects(files, max_line, recursive=recursive)
        roots: Iterable[Node]
        if output.is_table:
            roots = build_trees(list(objects), at=time.time(), ask_rules=ask_rules)
        else:
            found = (assess(document, at=time.time(), ask_rules=ask_rules) for document in objects)
            roots = (Node(assessment, ()) for assessment in found)
        _listing(output, None).show(roots)
    sys.exit(1 if objects.unread else 0)


def _of_cluster(
    words: tuple[str, ...],
    output: Format,
    access: Access,
    ask_rules: AskRules,
    *,
    watch: bool,
    **flags: Any,
) -> int:
    # Imported here: status -f needs none of it, and the API client loads for half a second.
    from webhook.cli.targets import Targets, asked_by, open_findings, show_objects  # noqa: PLC0415

    targets = Targets.of(access, asked_by(words, flags["selector"]), ask_rules, **flags)
    within = targets.namespace
    again = Again()

    def show(snapshot: "Snapshot", known: Culprits | None) -> None:
        listing = _listing(output, known, is_live=True)
        if watch:
            again.show(listing, snapshot.roots, lambda line: line.uid)
            return
        listing.show(snapshot.roots)
        if not snapshot.roots and not any(target.name for target in snapshot.there):
            where = f" in namespace {within}" if within else ""
            tell(f"No objects found{where}.")

    shown = asyncio.run(show_objects(targets, show, tell, everything=not words, watch=watch))
    for text in shown.missing:
        tell(text)
    if not words and within and not flags["namespace"]:
        tell(f"only namespace {within} is shown: -A shows all, -n NAMESPACE another")
    if shown.unread:
        tell(f"this is not all: {told_unread(shown.unread)}")
    if shown.open_findings:
        tell(open_findings(shown.open_findings))
    # Without --server it would depend on whether one could be reached.
    if shown.missing:
        return ExitCode.USAGE
    is_partial = shown.unread or shown.has_unreadable
    return 1 if is_partial or (shown.open_findings and access.server) else 0


class WatchedLine(StatusLine, frozen=True, rename="camel"):
    """One line of `genguard status -o json` of a cluster's object.

    culprits  null: no server could be asked
    """

    culprits: tuple[Culprit, ...] | None = None


def _listing(output: Format, known: Culprits | None, *, is_live: bool = False) -> Listing[Node]:
    wide = output.name == "wide"

    def rows(roots: Sequence[Node]) -> Sequence[Row]:
        if known is None:
            return table(roots, wide=wide)
        return table(roots, wide=wide, blame=lambda view: list(map(str, known.of(view))))

    def line(node: Node) -> StatusLine:
        found = node.assessment.to_line()
        if not is_live:
            return found
        culprits = known.of(node.assessment.view) if known else None
        return WatchedLine(**msgspec.structs.asdict(found), culprits=culprits)

    return Listing(output, rows, _name, line, partial(_printed, output), alone=True, spare=_SPARE)


def _printed(output: Format, roots: Iterable[Node]) -> Iterator[Node]:
    """Yield the objects that -o prints: names and columns only of what was asked for."""
    for root in roots:
        for node in [root] if output.name in _ASKED_FOR else root.walk():
            yield Node(node.assessment, ())


def _name(line: StatusLine) -> str:
    """`deployment.apps/web`, as kubectl prints names."""
    return f"{line.kind.lower()}{f'.{line.group}' if line.group else ''}/{line.name}"

"""Lays out trees of assessed objects as the rows of a table: `genguard status`."""

from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from typing import Final, NamedTuple

from genguard.objects.fields import get
from genguard.objects.shown import printable
from genguard.status.aggregate import STEP, summarize
from genguard.status.trees import Node
from genguard.status.view import Health, Reason, StatusView


class Tone(Enum):
    """What a cell means; webhook/cli/terminal.py chooses the colour."""

    PLAIN = "plain"
    FAINT = "faint"
    GOOD = "good"
    MILD = "mild"
    BAD = "bad"


class Cell(NamedTuple):
    """The text of one column in one row."""

    text: str
    tone: Tone = Tone.PLAIN


Row = tuple[Cell, ...]
"""If a row has fewer cells than the header, its last cell extends over the remaining columns."""
_NARROW: Final = ("OBJECT", "READY", "SETTLED", "HEALTH", "PROGRESS", "WHY")
_WIDE: Final = (
    *("OBJECT", "READY", "SETTLED", "HEALTH", "PROGRESS", "GENERATION", "RECONCILED"),
    *("TERMINATING", "KSTATUS", "ARGO", "KUBECTL", "WHY"),
)
_HEALTHS: Final = {Health.GREEN: Tone.GOOD, Health.YELLOW: Tone.MILD, Health.RED: Tone.BAD}
_ANSWERS: Final = {
    True: Cell("yes"),
    False: Cell("no", Tone.MILD),
    None: Cell("unknown", Tone.MILD),
}
_FORKS: Final = ("├─", "└─")
_LINES: Final = ("│ ", "  ")
_NOTHING: Final = "-"


def table(
    roots: Sequence[Node],
    *,
    wide: bool,
    blame: Callable[[StatusView], Sequence[str]] = lambda _: (),
) -> list[Row]:
    """Return a header and a row for each object, each owner above the objects that it owns.

    Without `wide` it leaves out ReplicaSets of former rollouts, which have no pods, and shows only
    the first reason that blocks. An extra row says what other tools answer about a root, and with
    `wide` about any object. Objects of several namespaces get a column NAMESPACE; several roots
    get a last row that sums them up.

    blame  who causes what is wrong with an object: a row for each text
    """
    views = [root.assessment.view for root in roots]
    namespaced = len({view.namespace for view in views}) > 1
    titles = (*(["NAMESPACE"] if namespaced else []), *(_WIDE if wide else _NARROW))
    rows: list[Row] = [tuple(Cell(title, Tone.FAINT) for title in titles)]
    for root in roots:
        for node, lead, below in _lay_out(root, wide=wide):
            row = _row(node, lead, wide=wide)
            space = (Cell(printable(node.assessment.view.namespace)),) if namespaced else ()
            rows.append((*space, *row))
            why = node.assessment.disagreement if wide or node is root else None
            if why is not None:
                rows.append((*space, Cell(f"{below}≠ {printable(why)}", Tone.FAINT)))
            culprits = blame(node.assessment.view)
            rows += [(*space, Cell(f"{below}! {text}", Tone.BAD)) for text in culprits]
    if len(views) > 1:
        rows.append((Cell(_summary_line(views)),))
    return rows


def object_name(view: StatusView) -> str:
    """`Deployment/web`."""
    return printable(f"{view.kind}/{view.name}")


def blocking_reasons(view: StatusView) -> list[Reason]:
    """Return the reasons that block, the deepest objects first: they cause the others."""
    found = [reason for reason in view.reasons if reason.blocks]
    return sorted(found, key=lambda reason: -reason.path.count(STEP))


def shorten(reasons: Sequence[Reason]) -> str:
    """Return the first reason and how many more there are: `... (+2 more)`."""
    more = f" (+{len(reasons) - 1} more)" if len(reasons) > 1 else ""
    return f"{reasons[0]}{more}"


def _lay_out(root: Node, *, wide: bool) -> Iterator[tuple[Node, str, str]]:
    """Yield each shown object, the branch drawn before it, and the prefix of rows below it."""
    pending = [(root, "", "")]
    while pending:
        node, lead, below = pending.pop()
        children = [child for child in node.children if wide or not _is_former(child)]
        yield node, lead, below + _LINES[not children]
        last = len(children) - 1
        pending += [
            (child, f"{below}{_FORKS[index == last]}", f"{below}{_LINES[index == last]}")
            for index, child in enumerate(children)
        ][::-1]


def _row(node: Node, lead: str, *, wide: bool) -> Row:
    assessment, view = node.assessment, node.assessment.view
    answers = (
        Cell(lead + object_name(view)),
        _ANSWERS[view.ready],
        _ANSWERS[view.settled],
        Cell(view.health, _HEALTHS[view.health]),
        Cell(_NOTHING if view.progress is None else f"{view.progress:.0%}"),
    )
    if not wide:
        # Where nothing blocks, remarks say what is Yellow, paused or limited.
        reasons = blocking_reasons(view) or list(view.reasons)
        return (*answers, Cell(printable(shorten(reasons)) if reasons else ""))
    generation, observed = _number(view.generation), view.observed_generation
    return (
        *answers,
        Cell(generation if observed is None else f"{observed} of {generation}"),
        Cell(_number(view.reconciled_generation)),
        Cell(_number(view.terminating_replicas)),
        Cell(assessment.kstatus),
        Cell(assessment.argo or _NOTHING),
        Cell(assessment.rollout or _NOTHING),
        Cell(printable("; ".join(str(reason) for reason in view.reasons))),
    )


def _summary_line(views: Sequence[StatusView]) -> str:
    """`3 objects: 2 Green, 1 Red; not ready, not settled`."""
    summary = summarize(views)
    counts = zip(Health, summary.healths, strict=True)
    healths = ", ".join(f"{count} {health}" for health, count in counts if count)
    ready = {True: "ready", False: "not ready", None: "readiness unknown"}[summary.ready]
    settled = "settled" if summary.settled else "not settled"
    return f"{summary.total} objects: {healths}; {ready}, {settled}"


def _number(value: int | None) -> str:
    return _NOTHING if value is None else str(value)


def _is_former(node: Node) -> bool:
    """Whether it is a ReplicaSet of a former rollout (deployment_util.go:FindOldReplicaSets)."""
    document, view = node.assessment.document, node.assessment.view
    is_set = (view.group, view.kind) == ("apps", "ReplicaSet")
    return is_set and not node.children and get(document, "spec", "replicas") == 0

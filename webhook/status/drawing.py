"""Trees of judged objects as rows of a table for people."""

from collections.abc import Iterable, Iterator, Sequence
from enum import Enum
from typing import Final, NamedTuple

from webhook.objects.fields import get
from webhook.objects.shown import printable
from webhook.status.aggregate import STEP, summarize
from webhook.status.forest import Node
from webhook.status.reason import Reason
from webhook.status.view import Health, StatusView


class Tone(Enum):
    """What a cell means; how it is coloured is for a terminal to say."""

    PLAIN = "plain"
    FAINT = "faint"
    GOOD = "good"
    MILD = "mild"
    BAD = "bad"


class Cell(NamedTuple):
    """One cell."""

    text: str
    tone: Tone = Tone.PLAIN


Row = tuple[Cell, ...]
"""The last cell of a row of fewer cells than the head is a remark, over all other columns."""
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


def table(roots: Sequence[Node], *, wide: bool) -> list[Row]:
    """A head, and a row an object: owners, and below them what they own.

    Narrow, it leaves out ReplicaSets of former rollouts, which want no pods and have none, and
    tells the first thing that blocks. Where the views of a root disagree, a row says why; wide,
    of every object. Several namespaces make a column, several roots a last row on all of them.
    """
    views = [root.judged.view for root in roots]
    namespaced = len({view.namespace for view in views}) > 1
    rows = [_head((*(["NAMESPACE"] if namespaced else []), *(_WIDE if wide else _NARROW)))]
    for root in roots:
        for node, lead, below in _places(root, wide=wide):
            row = _row(node, lead, wide=wide)
            space = (Cell(printable(node.judged.view.namespace)),) if namespaced else ()
            rows.append((*space, *row))
            why = node.judged.disagreement if wide or node is root else None
            if why is not None:
                rows.append((*space, Cell(f"{below}≠ {printable(why)}", Tone.FAINT)))
    if len(views) > 1:
        rows.append((Cell(_set(views)),))
    return rows


def kstatus_table(roots: Iterable[Node]) -> list[Row]:
    """A row an object with the word of kstatus, for those who come from there."""
    found = [node.judged for root in roots for node in root.walk()]
    return [
        _head(("NAMESPACE", "OBJECT", "KSTATUS")),
        *(
            (Cell(printable(one.view.namespace)), Cell(object_name(one.view)), Cell(one.kstatus))
            for one in found
        ),
    ]


def object_name(view: StatusView) -> str:
    """`Deployment/web`."""
    return printable(f"{view.kind}/{view.name}")


def blocking(view: StatusView) -> list[Reason]:
    """The reasons to wait, those furthest down the tree first: they are why the others hold."""
    found = [reason for reason in view.reasons if reason.blocks]
    return sorted(found, key=lambda reason: -reason.path.count(STEP))


def _head(words: Iterable[str]) -> Row:
    return tuple(Cell(word, Tone.FAINT) for word in words)


def _places(root: Node, *, wide: bool) -> Iterator[tuple[Node, str, str]]:
    """Every object that is shown, what leads to it, and what stands before lines below it."""
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
    judged, view = node.judged, node.judged.view
    answers = (
        Cell(lead + object_name(view)),
        _ANSWERS[view.ready],
        _ANSWERS[view.settled],
        Cell(view.health, _HEALTHS[view.health]),
        Cell(_NOTHING if view.progress is None else f"{view.progress:.0%}"),
    )
    if not wide:
        return (*answers, Cell(_why(view)))
    return (
        *answers,
        Cell(_generations(view)),
        Cell(_number(view.reconciled_generation)),
        Cell(_number(view.terminating_replicas)),
        Cell(judged.kstatus),
        Cell(judged.argo or _NOTHING),
        Cell(judged.rollout or _NOTHING),
        Cell(printable("; ".join(str(reason) for reason in view.reasons))),
    )


def _why(view: StatusView) -> str:
    reasons = blocking(view)
    if not reasons:
        return ""
    more = f" (+{len(reasons) - 1} more)" if len(reasons) > 1 else ""
    return printable(str(reasons[0])) + more


def _set(views: Sequence[StatusView]) -> str:
    """`3 objects: 2 Green, 1 Red; not ready, not settled`."""
    summary = summarize(views)
    counts = zip(Health, summary.healths, strict=True)
    healths = ", ".join(f"{count} {health}" for health, count in counts if count)
    ready = {True: "ready", False: "not ready", None: "readiness unknown"}[summary.ready]
    settled = "settled" if summary.settled else "not settled"
    return f"{summary.total} objects: {healths}; {ready}, {settled}"


def _generations(view: StatusView) -> str:
    """`3 of 4`: observed, and what there is."""
    if view.observed_generation is None:
        return _number(view.generation)
    return f"{view.observed_generation} of {_number(view.generation)}"


def _number(value: int | None) -> str:
    return _NOTHING if value is None else str(value)


def _is_former(node: Node) -> bool:
    """A ReplicaSet of a former rollout (kubernetes deployment_util.go:FindOldReplicaSets)."""
    document, view = node.judged.document, node.judged.view
    is_set = (view.group, view.kind) == ("apps", "ReplicaSet")
    return is_set and not node.children and get(document, "spec", "replicas") == 0

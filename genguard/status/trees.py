"""Builds trees of owners and the objects that they own, each assessed after its children.

An object is placed below its controller, or else below the first of its owners that is known. One
that another one depends on is placed below that one; if it is owned elsewhere, it stays there, and
counts for both.

An object depends on others that it does not own by the annotation genguard.io/depends-on:
`SQLInstance.sql.example.org/orders, Service/web`. Their status counts for it, whichever controller
it belongs to. They are in its namespace, or cluster-scoped: nobody can read through it what another
namespace has. Source: Improve .status, "Augment status using external dependant resources".
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any, Final, NamedTuple, Self

from msgspec import structs

from genguard.generation.table import load_rows
from genguard.objects.fields import ABSENT, get, items, text
from genguard.status.assessment import AskRules, Assessment, ask_no_rules, assess
from genguard.status.evaluate import evaluate
from genguard.status.view import Health, Past, Reason, StatusView

DEPENDS_ON: Final = "genguard.io/depends-on"
MOST_DEPENDENTS: Final = 50
"""Further names of one annotation are not read."""
_LONGEST: Final = 253
_BY_NAME: Final = attrgetter("assessment.view.kind", "assessment.view.name")
_PATH: Final = f"metadata.annotations[{DEPENDS_ON}]"


class Dependent(NamedTuple):
    """One object that is named: `SQLInstance.sql.example.org/orders`. Group "" is the core."""

    group: str
    kind: str
    name: str


_MALFORMED: Final = Dependent("", "Dependent", "unreadable")
"""Stands for all entries that are no KIND.GROUP/NAME."""


def read_dependents(document: Mapping[str, Any]) -> tuple[Dependent, ...]:
    """Return what an object names in its annotation, each once."""
    text = get(document, "metadata", "annotations", DEPENDS_ON)
    entries = text.split(",") if isinstance(text, str) else ()
    given = [entry.strip() for entry in entries if entry.strip()][:MOST_DEPENDENTS]
    return tuple(dict.fromkeys(map(_parse, given)))


def _parse(entry: str) -> Dependent:
    qualified, slash, name = entry.partition("/")
    kind, _, group = qualified.partition(".")
    is_good = slash and kind.isalnum() and name and "/" not in name and len(entry) <= 2 * _LONGEST
    return Dependent(group, kind, name) if is_good else _MALFORMED


class Dependents(NamedTuple):
    """What the annotations of some documents name, by the index of each that names anything.

    known    the indexes of other documents
    missing  a view for each object that is none of them: it is not ready
    """

    known: dict[int, list[int]]
    missing: dict[int, list[StatusView]]

    @classmethod
    def of(cls, documents: Sequence[Mapping[str, Any]]) -> Self:
        """Read every annotation; without any, nothing more is done."""
        named = {n: found for n, found in enumerate(map(read_dependents, documents)) if found}
        locations = dict(_locations(documents)) if named else {}
        made = cls({n: [] for n in named}, {n: [] for n in named})
        pairs = ((index, dependent) for index, found in named.items() for dependent in found)
        for index, dependent in pairs:
            namespace = text(get(documents[index], "metadata", "namespace"))
            where = dependent.group, dependent.kind.lower(), dependent.name
            other = locations.get((namespace, *where), locations.get(("", *where)))
            if other is None:
                made.missing[index].append(_absent(dependent, namespace))
            else:
                made.known[index] += [other] if other != index else []
        return made


def _locations(
    documents: Sequence[Mapping[str, Any]],
) -> Iterator[tuple[tuple[str, str, str, str], int]]:
    for index, document in enumerate(documents):
        namespace, name = (get(document, "metadata", key) for key in ("namespace", "name"))
        group, kind = group_and_kind(document)
        if kind and isinstance(name, str) and isinstance(document.get("apiVersion"), str):
            yield (text(namespace), group, kind.lower(), name), index


def _absent(dependent: Dependent, namespace: str) -> StatusView:
    reason = Reason("metadata.name", ABSENT, "present", f"{DEPENDS_ON} names it")
    if dependent is _MALFORMED:
        reason = Reason(_PATH, "a text", "KIND.GROUP/NAME, separated by commas")
    metadata = {"namespace": namespace, "name": dependent.name}
    document = {"apiVersion": f"{dependent.group}/v1", "kind": dependent.kind, "metadata": metadata}
    return structs.replace(
        evaluate(document, at=0.0),
        version="",
        ready=False,
        settled=False,
        health=Health.YELLOW,
        reasons=(reason,),
        table_ready=None,
    )


Resource = tuple[str, str]
"""Group and resource: `("apps", "deployments")`."""
PODS: Final[Resource] = ("", "pods")
JOBS: Final[Resource] = ("batch", "jobs")
REPLICA_SETS: Final[Resource] = ("apps", "replicasets")
WORKLOADS: Final[Mapping[Resource, tuple[Resource, ...]]] = {
    ("apps", "deployments"): (REPLICA_SETS,),
    REPLICA_SETS: (PODS,),
    ("apps", "statefulsets"): (PODS,),
    ("apps", "daemonsets"): (PODS,),
    ("", "replicationcontrollers"): (PODS,),
    ("batch", "cronjobs"): (JOBS,),
    JOBS: (PODS,),
    PODS: (),
}
"""What the objects of a kind own. Source: the controllers in kubernetes pkg/controller, each of
which sets the ownerReferences of what it creates."""
Document = Mapping[str, Any]
"""A decoded object."""


class Node(NamedTuple):
    """One object and the objects that it owns, each assessed."""

    assessment: Assessment
    children: tuple["Node", ...]

    def walk(self) -> Iterator["Node"]:
        """Yield this node, then everything below it, parents first."""
        pending = [self]
        while pending:
            node = pending.pop()
            yield node
            pending += reversed(node.children)


def owned_by(resource: Resource) -> set[Resource]:
    """Return every resource that objects of a built-in one own, directly or indirectly."""
    found: set[Resource] = set()
    pending = [resource]
    while pending:
        below = set(WORKLOADS.get(pending.pop(), ())) - found
        found |= below
        pending += below
    return found


def is_custom(resource: Resource) -> bool:
    """Whether a resource is not built in, so that what its objects own is not known beforehand."""
    return all((row.group, row.resource) != resource for row in load_rows())


def build_trees(
    documents: Sequence[Document],
    shown: Collection[str] | None = None,
    past: Callable[[str], Past | None] = lambda _: None,
    *,
    at: float,
    ask_rules: AskRules = ask_no_rules,
) -> tuple[Node, ...]:
    """Build the trees of all documents, in their order. Children are sorted by kind and name.

    shown  uids of the objects to show; one below another of them appears only there. None: all.
    past   returns what is known from earlier writes of the object with a uid.
    at     now, in Unix seconds.
    ask_rules  evaluates rules in CEL.
    """
    dependents = Dependents.of(documents)
    parents = _find_parents(documents, dependents.known)
    below: dict[int, list[int]] = {}
    for index, parent in parents.items():
        below.setdefault(parent, []).append(index)
    order = _order_from_roots(documents, parents, below, shown)
    placed = set(order)
    nodes: dict[int, Node] = {}
    views: dict[int, StatusView] = {}
    for index in _order_of_evaluation(order, below, dependents.known):
        document = documents[index]
        depended = dependents.known.get(index, ())
        found = {child: nodes.pop(child) for child in below.get(index, ()) if child in nodes}
        owned = [node.assessment.view for child, node in found.items() if child not in depended]
        others = [views[needed] for needed in depended if needed in views]
        others += dependents.missing.get(index, ())
        children = sorted(found.values(), key=_BY_NAME)
        assessed = assess(
            document, past(read_uid(document)), owned, others, at=at, ask_rules=ask_rules
        )
        nodes[index], views[index] = Node(assessed, tuple(children)), assessed.view
    return tuple(nodes[index] for index in sorted(nodes) if index in placed)


def read_uid(document: Document) -> str:
    """Return metadata.uid, or ""."""
    return text(get(document, "metadata", "uid"))


def group_and_kind(document: Document) -> tuple[str, str]:
    """Return group and kind, each "" when it cannot be read."""
    return text(document.get("apiVersion")).rpartition("/")[0], text(document.get("kind"))


def _order_from_roots(
    documents: Sequence[Document],
    parents: Mapping[int, int],
    below: Mapping[int, Sequence[int]],
    shown: Collection[str] | None,
) -> list[int]:
    """Return the indexes of the shown objects and all below them, owners first."""
    starts = {
        index
        for index, document in enumerate(documents)
        if shown is None or read_uid(document) in shown
    }
    roots = [index for index in starts if starts.isdisjoint(_ancestors(index, parents))]
    order: dict[int, None] = {}
    # Objects that own each other in a circle have no root: the first of them becomes one.
    for start in (*roots, *sorted(starts)):
        pending = [start]
        while pending:
            index = pending.pop()
            if index not in order:
                order[index] = None
                pending += below.get(index, ())
    return list(order)


def _order_of_evaluation(
    order: Sequence[int],
    below: Mapping[int, Sequence[int]],
    dependents: Mapping[int, Sequence[int]],
) -> list[int]:
    """Return the indexes, each after all that its answer needs.

    In a circle of objects that depend on each other, the last one is evaluated without the first.
    """
    found: dict[int, None] = {}
    entered: set[int] = set()
    pending = [(index, False) for index in reversed(order)]
    while pending:
        index, needs_are_done = pending.pop()
        if needs_are_done:
            found[index] = None
        elif index not in entered:
            entered.add(index)
            pending.append((index, True))
            needed = (*below.get(index, ()), *dependents.get(index, ()))
            pending += [(other, False) for other in needed if other not in entered]
    return list(found)


def _ancestors(index: int, parents: Mapping[int, int]) -> set[int]:
    found: set[int] = set()
    while (parent := parents.get(index)) is not None and parent not in found:
        found.add(parent)
        index = parent
    return found


def _find_parents(
    documents: Sequence[Document], dependents: Mapping[int, Sequence[int]]
) -> dict[int, int]:
    by_uid = {uid: index for index, document in enumerate(documents) if (uid := read_uid(document))}
    found: dict[int, int] = {}
    for index, document in enumerate(documents):
        parent = _find_owner(document, by_uid)
        if parent is not None and parent != index:
            found[index] = parent
    for index, other in ((index, other) for index, named in dependents.items() for other in named):
        if other not in found and other not in _ancestors(index, found):
            found[other] = index
    return found


def _find_owner(document: Document, by_uid: Mapping[str, int]) -> int | None:
    found: int | None = None
    for owner in items(get(document, "metadata", "ownerReferences")):
        uid = get(owner, "uid")
        parent = by_uid.get(uid) if isinstance(uid, str) else None
        if parent is not None and (found is None or get(owner, "controller") is True):
            found = parent
    return found

"""Builds trees of owners and the objects that they own, each assessed after its children.

An object is placed below its controller, or else below the first of its owners that is known. A
member of an Application (app.k8s.io) that no known object owns is placed below the Application.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from webhook.generation.table import load_rows
from webhook.objects.fields import ABSENT, get
from webhook.objects.selectors import Truth, matches_labels
from webhook.status.assessment import Assessment, Judge, assess, judge_nothing
from webhook.status.view import Past

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
APPLICATION: Final = ("app.k8s.io", "Application")
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
    judge: Judge = judge_nothing,
) -> tuple[Node, ...]:
    """Build the trees of all documents, in their order. Children are sorted by kind and name.

    shown  uids of the objects to show; one below another of them appears only there. None: all.
    past   returns what is known from earlier writes of the object with a uid.
    at     now, in Unix seconds.
    judge  evaluates rules in CEL.
    """
    parents = _find_parents(documents)
    below: dict[int, list[int]] = {}
    for index, parent in parents.items():
        below.setdefault(parent, []).append(index)
    nodes: dict[int, Node] = {}
    for index in reversed(_order_from_roots(documents, parents, below, shown)):
        document = documents[index]
        found = [nodes.pop(one) for one in below.get(index, ()) if one in nodes]
        children = tuple(sorted(found, key=lambda node: _sort_key(node.assessment.document)))
        views = [child.assessment.view for child in children]
        known = past(read_uid(document))
        nodes[index] = Node(assess(document, known, views, at=at, judge=judge), children)
    return tuple(nodes[index] for index in sorted(nodes))


def read_uid(document: Document) -> str:
    """Return metadata.uid, or ""."""
    uid = get(document, "metadata", "uid")
    return uid if isinstance(uid, str) else ""


def group_and_kind(document: Document) -> tuple[str, str]:
    """Return group and kind, each "" when it cannot be read."""
    version, kind = document.get("apiVersion"), document.get("kind")
    group = version.rpartition("/")[0] if isinstance(version, str) else ""
    return group, kind if isinstance(kind, str) else ""


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


def _ancestors(index: int, parents: Mapping[int, int]) -> set[int]:
    found: set[int] = set()
    while (parent := parents.get(index)) is not None and parent not in found:
        found.add(parent)
        index = parent
    return found


def _find_parents(documents: Sequence[Document]) -> dict[int, int]:
    by_uid = {uid: index for index, one in enumerate(documents) if (uid := read_uid(one))}
    found = {
        index: parent
        for index, document in enumerate(documents)
        if (parent := _find_owner(document, by_uid)) is not None and parent != index
    }
    for index, document in enumerate(documents):
        if group_and_kind(document) == APPLICATION:
            for other, member in enumerate(documents):
                if other != index and other not in found and is_member(document, member):
                    found[other] = index
    return found


def _find_owner(document: Document, by_uid: Mapping[str, int]) -> int | None:
    owners = get(document, "metadata", "ownerReferences")
    found: int | None = None
    for one in owners if isinstance(owners, list) else ():
        uid = get(one, "uid")
        parent = by_uid.get(uid) if isinstance(uid, str) else None
        if parent is not None and (found is None or get(one, "controller") is True):
            found = parent
    return found


def is_member(application: Document, document: Document) -> bool:
    """Whether an object belongs to an Application: by kind, namespace and labels.

    Source: kubernetes-sigs/application api/v1beta1/application_types.go:ApplicationSpec.
    """
    metadata, mine = get(document, "metadata"), get(application, "metadata")
    return (
        group_and_kind(document) in component_kinds(application)
        and get(metadata, "namespace") in (ABSENT, get(mine, "namespace"))
        and matches_selector(get(application, "spec", "selector"), get(metadata, "labels"))
    )


def component_kinds(application: Document) -> list[tuple[str, str]]:
    """Return group and kind of each kind of member that an Application names."""
    kinds = get(application, "spec", "componentKinds")
    if not isinstance(kinds, list):
        return []
    found = [(get(one, "group"), get(one, "kind")) for one in kinds]
    # Its examples call the core group "core" or, after its version, "v1".
    return [
        (group if isinstance(group, str) and group not in ("core", "v1") else "", kind)
        for group, kind in found
        if isinstance(kind, str)
    ]


def matches_selector(selector: Any, labels: Any) -> bool:
    """Whether a LabelSelector from an object matches labels; an absent or malformed one does not.

    Source: apimachinery pkg/apis/meta/v1/helpers.go:LabelSelectorAsSelector.
    """
    if not isinstance(selector, Mapping):
        return False
    known = labels if isinstance(labels, Mapping) else {}
    try:
        return matches_labels(selector, known, complete=True) is Truth.TRUE
    except (AttributeError, TypeError):
        return False


def _sort_key(document: Document) -> tuple[str, str]:
    name = get(document, "metadata", "name")
    return group_and_kind(document)[1], name if isinstance(name, str) else ""

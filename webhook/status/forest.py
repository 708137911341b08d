"""Objects as trees of owners and owned, each judged after what is below it.

An object stands below its controller, else below the first of its owners that is known. A member
of an Application (app.k8s.io) that nobody known owns stands below that.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from webhook.objects.fields import ABSENT, get
from webhook.status.judged import Judged, judge
from webhook.status.selection import selects
from webhook.status.view import Past

Document = Mapping[str, Any]
APPLICATION: Final = ("app.k8s.io", "Application")


class Node(NamedTuple):
    """One object, judged with what it owns."""

    judged: Judged
    children: tuple["Node", ...]

    def walk(self) -> Iterator["Node"]:
        """Itself and everything below."""
        pending = [self]
        while pending:
            node = pending.pop()
            yield node
            pending += reversed(node.children)


def grow(
    documents: Sequence[Document],
    wanted: Collection[str] | None = None,
    past: Callable[[str], Past | None] = lambda _: None,
    *,
    at: float,
) -> tuple[Node, ...]:
    """The trees, in the order of the documents; below one object by kind and name.

    wanted  uids whose trees are asked for; what stands below another of them is told there. None:
            everything.
    past    what is known of an object, by its uid.
    at      now, in Unix seconds.
    """
    parents = _parents(documents)
    below: dict[int, list[int]] = {}
    for index, parent in parents.items():
        below.setdefault(parent, []).append(index)
    nodes: dict[int, Node] = {}
    for index in reversed(_downwards(documents, parents, below, wanted)):
        document = documents[index]
        found = [nodes.pop(one) for one in below.get(index, ()) if one in nodes]
        children = tuple(sorted(found, key=lambda node: _named(node.judged.document)))
        views = [child.judged.view for child in children]
        nodes[index] = Node(judge(document, past(uid_of(document)), views, at=at), children)
    return tuple(nodes[index] for index in sorted(nodes))


def uid_of(document: Document) -> str:
    """metadata.uid, "" where there is none."""
    uid = get(document, "metadata", "uid")
    return uid if isinstance(uid, str) else ""


def kind_of(document: Document) -> tuple[str, str]:
    """Group and kind, each "" where it cannot be told."""
    version, kind = document.get("apiVersion"), document.get("kind")
    group = version.rpartition("/")[0] if isinstance(version, str) else ""
    return group, kind if isinstance(kind, str) else ""


def _downwards(
    documents: Sequence[Document],
    parents: Mapping[int, int],
    below: Mapping[int, Sequence[int]],
    wanted: Collection[str] | None,
) -> list[int]:
    """What is asked for, owners before what they own."""
    asked = {
        index
        for index, document in enumerate(documents)
        if wanted is None or uid_of(document) in wanted
    }
    roots = [index for index in asked if asked.isdisjoint(_above(index, parents))]
    order: dict[int, None] = {}
    # Owners in a circle have no root: the first of them is one then.
    for start in (*roots, *sorted(asked)):
        pending = [start]
        while pending:
            index = pending.pop()
            if index not in order:
                order[index] = None
                pending += below.get(index, ())
    return list(order)


def _above(index: int, parents: Mapping[int, int]) -> set[int]:
    found: set[int] = set()
    while (parent := parents.get(index)) is not None and parent not in found:
        found.add(parent)
        index = parent
    return found


def _parents(documents: Sequence[Document]) -> dict[int, int]:
    by_uid = {uid: index for index, one in enumerate(documents) if (uid := uid_of(one))}
    found = {
        index: parent
        for index, document in enumerate(documents)
        if (parent := _owner(document, by_uid)) is not None and parent != index
    }
    for index, document in enumerate(documents):
        if kind_of(document) == APPLICATION:
            for other, member in enumerate(documents):
                if other != index and other not in found and is_member(document, member):
                    found[other] = index
    return found


def _owner(document: Document, by_uid: Mapping[str, int]) -> int | None:
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
        kind_of(document) in component_kinds(application)
        and get(metadata, "namespace") in (ABSENT, get(mine, "namespace"))
        and selects(get(application, "spec", "selector"), get(metadata, "labels"))
    )


def component_kinds(application: Document) -> list[tuple[str, str]]:
    """Groups and kinds of an Application's members."""
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


def _named(document: Document) -> tuple[str, str]:
    name = get(document, "metadata", "name")
    return kind_of(document)[1], name if isinstance(name, str) else ""

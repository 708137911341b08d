"""Objects that another object depends on, though it does not own them: decorator mode.

Reads    the annotation genguard.io/depends-on: `SQLInstance.sql.example.org/orders, Service/web`.
Result   the status of each counts for the object that names it. The object itself may belong to
         any controller, which need not know of them.
Relies   on names in the same namespace, or of cluster-scoped objects: nobody can read through it
         what another namespace has.
Source   Improve .status, "Augment status using external dependant resources".
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from genguard.objects.fields import ABSENT, get
from genguard.status.view import Health, Reason, StatusView

DEPENDS_ON: Final = "genguard.io/depends-on"
MOST_DEPENDENTS: Final = 50
"""Further names of one annotation are not read."""
_LONGEST: Final = 253
_PATH: Final = f"metadata.annotations[{DEPENDS_ON}]"


class Dependent(NamedTuple):
    """One object that is named: `SQLInstance.sql.example.org/orders`. Group "" is the core."""

    group: str
    kind: str
    name: str

    @property
    def qualified_kind(self) -> str:
        """`SQLInstance.sql.example.org`."""
        return f"{self.kind}.{self.group}".rstrip(".")


class Named(NamedTuple):
    """What one annotation names, and how many of its entries are no KIND.GROUP/NAME."""

    dependents: tuple[Dependent, ...]
    malformed: int


_NONE: Final = Named((), 0)


def read_dependents(document: Mapping[str, Any]) -> Named:
    """Return what an object names in its annotation."""
    text = get(document, "metadata", "annotations", DEPENDS_ON)
    if not isinstance(text, str):
        return _NONE
    entries = [one.strip() for one in text.split(",") if one.strip()][:MOST_DEPENDENTS]
    found = [_parse(one) for one in entries]
    known = tuple(dict.fromkeys(one for one in found if one is not None))
    return Named(known, found.count(None))


def _parse(entry: str) -> Dependent | None:
    qualified, slash, name = entry.partition("/")
    kind, _, group = qualified.partition(".")
    is_good = slash and kind.isalnum() and name and "/" not in name and len(entry) <= 2 * _LONGEST
    return Dependent(group, kind, name) if is_good else None


class DependentIndex:
    """Finds the objects that annotations name among the documents that are known."""

    def __init__(self, documents: Sequence[Mapping[str, Any]]) -> None:
        """Read every annotation; without any, nothing more is done."""
        self._named: Final = {
            index: named
            for index, document in enumerate(documents)
            if (named := read_dependents(document)) is not _NONE
        }
        self._places: Final = dict(_places(documents)) if self._named else {}
        self._namespaces: Final = {index: _namespace(documents[index]) for index in self._named}

    def pairs(self) -> Iterator[tuple[int, int]]:
        """Yield the index of each object that names another one, and that one's index."""
        for index in self._named:
            yield from ((index, one) for one in self.of(index))

    def of(self, index: int) -> list[int]:
        """Return the indexes of the documents that one document depends on."""
        named = self._named.get(index, _NONE)
        found = (self._find(index, one) for one in named.dependents)
        return [one for one in found if one is not None and one != index]

    def missing(self, index: int) -> list[StatusView]:
        """Return a view for each object that is named but not known: it is not ready."""
        named = self._named.get(index)
        if named is None:
            return []
        views = [
            _absent(one, self._namespaces[index])
            for one in named.dependents
            if self._find(index, one) is None
        ]
        return [*views, *[_malformed(self._namespaces[index])][: named.malformed]]

    def _find(self, index: int, one: Dependent) -> int | None:
        where = one.group, one.kind.lower(), one.name
        found = self._places.get((self._namespaces[index], *where))
        return self._places.get(("", *where)) if found is None else found


def _places(
    documents: Sequence[Mapping[str, Any]],
) -> Iterator[tuple[tuple[str, str, str, str], int]]:
    for index, document in enumerate(documents):
        version, kind = document.get("apiVersion"), document.get("kind")
        name = get(document, "metadata", "name")
        if isinstance(version, str) and isinstance(kind, str) and isinstance(name, str):
            group = version.rpartition("/")[0]
            yield (_namespace(document), group, kind.lower(), name), index


def _namespace(document: Mapping[str, Any]) -> str:
    found = get(document, "metadata", "namespace")
    return found if isinstance(found, str) else ""


def _absent(one: Dependent, namespace: str) -> StatusView:
    reason = Reason("metadata.name", ABSENT, "present", f"{DEPENDS_ON} names it")
    return _blocked(one.group, one.kind, namespace, one.name, reason)


def _malformed(namespace: str) -> StatusView:
    reason = Reason(_PATH, "a text", "KIND.GROUP/NAME, separated by commas")
    return _blocked("", "Dependent", namespace, "unreadable", reason)


def _blocked(group: str, kind: str, namespace: str, name: str, reason: Reason) -> StatusView:
    return StatusView(
        group=group,
        version="",
        kind=kind,
        namespace=namespace,
        name=name,
        uid="",
        ready=False,
        settled=False,
        health=Health.YELLOW,
        progress=None,
        generation=None,
        observed_generation=None,
        reconciled_generation=None,
        terminating_replicas=None,
        table_ready=None,
        reasons=(reason,),
    )

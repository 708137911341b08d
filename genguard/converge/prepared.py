"""The manifests of one run, and what is known beforehand of who writes their objects."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from genguard.audit.event import Event, ObjectReference
from genguard.blame.audited import AuditBlame, NotInLogError, ObjectLog
from genguard.blame.managed import UnreadableFieldsError
from genguard.blame.report import BlamedField, Seen, blame_live
from genguard.converge.chain import Document
from genguard.converge.contest import Contested
from genguard.converge.owners import asked_twice, joined, owned_by_others, returned
from genguard.converge.report import name_of
from genguard.detection.finding import FoundObject
from genguard.objects.served import Served

Kinds = Mapping[tuple[str, str], Served]
"""What a cluster serves, by apiVersion and kind."""


@dataclass(frozen=True, slots=True)
class Applier:
    """Who applies the manifests: the field manager, None where nobody said; and the user, or ""."""

    manager: str | None = None
    user: str = ""


@dataclass(frozen=True, slots=True)
class Refused:
    """A manifest that cannot be looked at, by itself."""

    which: Mapping[str, str]
    reason: str


@dataclass(frozen=True, slots=True)
class Prepared:
    """A manifest with its kind as the cluster serves it, None where it does not."""

    served: Served | None
    manifest: Document
    which: Mapping[str, str]

    @classmethod
    def of(cls, document: Document, kinds: Kinds, namespace: str) -> "Prepared":
        """Find the kind of a manifest, and give it a namespace where it needs one."""
        given = document.get("metadata")
        metadata = dict(given) if isinstance(given, dict) else {}
        version, kind = str(document.get("apiVersion", "")), str(document.get("kind", ""))
        served = kinds.get((version, kind))
        if served is not None and not served.namespaced:
            metadata.pop("namespace", None)  # kubectl passes over it, too
        elif not metadata.get("namespace"):
            metadata["namespace"] = namespace
        name = metadata.get("name")
        which = {
            "kind": kind,
            "group": served.group if served else version.rpartition("/")[0],
            "resource": served.resource if served else kind.lower(),
            "namespace": str(metadata.get("namespace", "")),
            "name": name if isinstance(name, str) else "",
        }
        manifest = {**document, "metadata": metadata}
        if served is not None and served.has_status:
            manifest.pop("status", None)  # which an apply does not write
        return cls(served, manifest, which)

    @property
    def key(self) -> tuple[str, ...]:
        """The same for two manifests of one object."""
        return tuple(self.which.values())

    @property
    def unusable(self) -> str:
        """Why nothing can be applied, "" where something can."""
        if self.served is None:
            kind = f"{self.manifest.get('apiVersion', '')} {self.manifest.get('kind', '')}".strip()
            return f"the cluster serves no {kind or 'object without a kind'}"
        return (
            ""
            if self.which["name"]
            else "it has no metadata.name, without which nothing is applied"
        )


class Logs:
    """What audit logs say of the objects of manifests; events go in by `take`."""

    def __init__(self, prepared: Iterable[Prepared]) -> None:
        self._by_object: Final[dict[tuple[str, ...], AuditBlame]] = {}
        self._by_kind: Final[dict[tuple[str, str], list[tuple[str, AuditBlame]]]] = {}
        for manifest in prepared:
            if manifest.served is not None and manifest.key not in self._by_object:
                name = manifest.which["name"]
                kind = manifest.served.group, manifest.served.resource
                log = AuditBlame(lambda _: True, name, manifest.which["namespace"])
                self._by_object[manifest.key] = log
                self._by_kind.setdefault(kind, []).append((name, log))

    def take(self, event: Event) -> None:
        """Note an event about one of the objects."""
        where = event.object_ref or ObjectReference()
        for name, log in self._by_kind.get((where.api_group, where.resource), ()):
            if where.name in ("", name):
                log.take(event)

    def object_log(self, prepared: Prepared, tell: Callable[[str], None]) -> ObjectLog | None:
        """Return what the logs say of an object, None where they have no write of it."""
        try:
            object_log = self._by_object[prepared.key].find()
        except NotInLogError:
            tell(f"--audit has no write of {name_of(prepared.which)}")
            return None
        if object_log.unseen:
            name = name_of(prepared.which)
            tell(f"--audit does not show the fields of {object_log.unseen} writes of {name}")
        return object_log


def known_contests(
    prepared: Prepared,
    every: Sequence[Prepared],
    stored: Document | None,
    by: Applier,
    *,
    seen: Seen | None,
    logs: Logs | None,
    tell: Callable[[str], None],
) -> Iterator[Contested]:
    """Yield the fields that other manifests ask for, or that others own and want otherwise.

    stored  the object as it is now, None where there is none
    seen    what a running genguard has seen of it, None where none was asked
    tell    is told what is not known
    """
    others = [
        each.manifest for each in every if each is not prepared and each.which == prepared.which
    ]
    yield from asked_twice(prepared.manifest, others)
    written: Sequence[BlamedField] = ()
    object_log = None if logs is None else logs.object_log(prepared, tell)
    report = object_log.report("") if object_log else None
    try:
        if stored is not None and prepared.served is not None:
            where = object_of(prepared, stored)
            if seen is not None and not seen.writes:
                tell(f"--server remembers no write of {name_of(prepared.which)}")
            written = blame_live(where, stored, seen).fields
            if report and report.exists and report.object.uid in ("", where.uid):
                written, object_log = tuple(joined(written, report.fields)), None
        yield from owned_by_others(prepared.manifest, stored or {}, written, by.manager, by.user)
    except UnreadableFieldsError as error:
        tell(f"the owners of {prepared.served}/{prepared.which['name']} are not known: {error}")
    if object_log and report:
        # Who wrote a field once belongs to that life; who came back will do so in the next.
        name = name_of(prepared.which)
        tell(f"--audit is about an earlier {name}: only writers who changed it back are counted")
        back = filter(returned, report.fields)
        yield from owned_by_others(
            prepared.manifest, object_log.document or {}, back, by.manager, by.user
        )


def object_of(prepared: Prepared, stored: Mapping[str, Any]) -> FoundObject:
    """Return which object it is, with its uid."""
    assert prepared.served is not None  # noqa: S101 - it is stored
    kind = prepared.served.group, prepared.served.version, prepared.served.resource
    uid = stored["metadata"].get("uid", "")
    return FoundObject(*kind, prepared.which["namespace"], prepared.which["name"], uid)

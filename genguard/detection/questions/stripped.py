"""Stripped: a webhook removes fields that requesters set, from what they create too.

Result  blames other webhooks: most often one decodes objects into a type of its own, which is older
        than the field, and answers with a patch of the whole object (enix/kube-image-keeper#457,
        doitintl/kube-secrets-init#53, kubernetes/kubernetes#127701)
Relies  on leaves of spec: `lost` tells of status and metadata, `reversals` of a field of one object
        that is put back again and again

Bounded in entries.
"""

from collections.abc import Iterator, Sequence
from typing import ClassVar, Final

from genguard.admission.matching import ResourceKind
from genguard.admission.review import Operation
from genguard.detection.changes import OFF
from genguard.detection.history import ObjectHistory
from genguard.detection.observation import Observation
from genguard.detection.question import DECLARED, Answers, ChangedBy, Question, signal
from genguard.detection.since import first_version
from genguard.detection.values import digest_of
from genguard.detection.write import Write, is_policy, name_of
from genguard.objects.bounded import Bounded
from genguard.objects.fields import Path, from_pointer, to_field_path
from genguard.objects.shown import listed

STRIPPED: Final = DECLARED["field-stripped"]
_LEAST: Final = 5
"""So many objects, or creations, lack a field that an older API knows, or of a custom resource."""
_SECONDS_STRIPPED: Final = 900.0
"""Objects are created now and then: a long time without any does not end the finding."""
_MOST_STRIPPED: Final = 1_000
_MOST_FIELDS: Final = 20
"""Of one write."""
_NOTHING: Final = OFF | {digest_of(b"{}"), digest_of(b"[]")}
"""A webhook that encodes an object anew leaves out values that say nothing."""
_FEW: Final = 2
"""Fields of an item of which one is chosen: a variable with its name and one source."""


def _taken(write: Write, *, again: bool) -> Iterator[tuple[str, str, bool]]:
    """Yield fields of the request that webhooks took away; reinvoked ones take added fields too.

    Pointers, as they are and of any item, and whether it may have been replaced. A part that a
    creation loses as a whole is one field. Positions in a list say nothing where items came in.
    """
    asked, made = (*(write.content.requested or ()),), (*(write.content.webhook or ()),)
    if again:
        asked, made = (*asked, *made), (*write.content.reinvocation,)
    if not made:
        return
    lost = {x.key: x.pointer for x in made if x.removed and x.before not in _NOTHING}
    wanted = {change.key for change in asked if change.after is not None}
    there = {change.key for change in made if not change.removed}
    left = {key[:n] for key in (wanted - lost.keys()) | there for n in range(len(key) + 1)}
    is_creation = write.operation is Operation.CREATE
    for key in sorted(wanted.intersection(lost), key=lost.__getitem__)[:_MOST_FIELDS]:
        depths = range(1, len(key)) if is_creation else ()
        gone = key[: next((n for n in depths if key[:n] not in left), len(key))]
        at = next((n for n, part in enumerate(gone) if isinstance(part, int)), len(gone) - 1)
        came = [path for path in there if path[:at] == gone[:at]]
        if key[0] not in ("status", "metadata") and not (came and isinstance(gone[at], int)):
            pointer = "/".join(lost[key].split("/")[: len(gone) + 1])
            field = "/".join("*" if part.isdecimal() else part for part in pointer.split("/"))
            yield pointer, field, _may_be_replaced(gone, key, came, wanted)


def _may_be_replaced(gone: Path, key: Path, came: Sequence[Path], wanted: set[Path]) -> bool:
    """Whether something else may have come in place of a field, or of an item of a list.

    Another item; another source of a variable, which has few fields; or an object in place of an
    object, as another handler of a probe.
    """
    above = len(gone) - 1
    beside = {path[: above + 1] for path in wanted if path[:above] == gone[:above]}
    is_item = "#" in str(gone[above])
    new = (path for path in came if len(path) > above + 1 and path[: above + 1] not in beside)
    return bool(came) and (is_item or len(beside) <= _FEW or (len(key) > above + 1 and any(new)))


class Stripped(Question):
    """See the module. It remembers which fields webhooks take away, and from which objects."""

    findings: ClassVar = (STRIPPED,)

    def __init__(self) -> None:
        self._stripped: Final[Bounded[tuple[ResourceKind, str], tuple[int, ...]]] = Bounded(
            _MOST_STRIPPED
        )
        """By kind and field: some of the objects, and of the creations, without it."""
        self.seen = self.joined = (self._written,)

    def _written(self, write: Write, about: ObjectHistory | Observation) -> Answers:
        is_creation = write.operation is Operation.CREATE
        if write.content.is_mutated and is_creation is isinstance(about, Observation):
            if write.subresource:
                return
            which = hash(write.time) if is_creation else hash(name_of(write.object))
            yield from self._strips(write, which)
            yield from self._strips(write, which, again=True)

    def _strips(self, write: Write, which: int, *, again: bool = False) -> Answers:
        """Tell what webhooks take away, at once where their API is too old to know it.

        A policy takes away what it forbids, which is told once. A refused write is joined twice.

        which  the object, or the creation; again: by those that were reinvoked
        """
        told: dict[str, str] = {}
        versions: set[str] = set()
        is_minor = True
        for pointer, field, may_be_replaced in _taken(write, again=again):
            known = self._stripped.get((write.kind, field)) or ()
            is_first, of_kind = not known, first_version(*write.kind[:2], "")
            since = first_version(*write.kind[:2], field)
            since = since if since != of_kind else None  # it would not know the kind either
            if may_be_replaced and not since:
                continue
            if which in known and write.operation is Operation.CREATE:
                continue
            known = known if which in known else (*known, which)[-_LEAST:]
            self._stripped.put((write.kind, field), known)
            names, _ = write.called.about((pointer,), again=again)
            by_policy = bool(names) and all(map(is_policy, names))
            if is_first if by_policy else since or len(known) >= _LEAST:
                is_minor = is_minor and by_policy
                told[pointer] = to_field_path(from_pointer(field)).replace(".*", "[*]")
                versions |= {since} if since else set()
        if told:
            fields = [*dict.fromkeys(told.values())]
            setter = write.requester.user + (" or another one" if again else "")
            said = f"another webhook removes {listed(fields, 3)}, which {setter} sets"
            evidence: dict[str, object] = {"fields": fields}
            if versions:
                evidence["since"] = since = max(
                    versions, key=lambda version: (len(version), version)
                )
                said += f"; it is built with an API older than Kubernetes {since}"
            more = {"minor": is_minor, "evidence": evidence, "pace": _SECONDS_STRIPPED}
            yield signal(STRIPPED, write, ChangedBy.OTHERS, told, said, reinvoked=again, **more)

"""Fields of a manifest that somebody else owns, and would write back.

Source: what genguard/blame knows: metadata.managedFields (KEP-555), a running genguard, an audit
        log; and the targets of HorizontalPodAutoscalers (autoscaling/v2
        types.go:CrossVersionObjectReference)
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from genguard.blame.places import Place, leaves, show
from genguard.blame.report import BlamedField, Writer
from genguard.converge.contest import Contest, Contested, Level, Party, Turn
from genguard.converge.fields import overwritten
from genguard.detection.finding import Confidence
from genguard.objects.served import Served

_REPLICAS: Final[Place] = ("spec", "replicas")
_APPLIERS: Final = (
    *("kubectl", "before-first-apply", "genguard", "helm", "argocd", "kustomize", "flux"),
    *("pulumi", "terraform", "hashicorp", "ansible", "openapi-generator", "k9s", "rancher"),
)
"""Beginnings of the names of managers that apply manifests, in lower case: they do not insist on
what they applied before."""


def owned_by_others(
    manifest: Mapping[str, Any],
    stored: Mapping[str, Any],
    known: Iterable[BlamedField],
    manager: str | None,
    user: str = "",
) -> Iterator[Contested]:
    """Yield the fields that others own with another value, or change back each time.

    stored   the object as it is; {} where there is none
    known    who wrote its fields
    manager  who applies the manifest; None where nobody said, so that it may be any applier
    user     the user who applies it; "" where nobody said
    """
    rows = {row.field: row for row in known}
    differ = {one.place: one.after for one in overwritten(manifest, stored) if not one.order}
    for place, wanted in leaves(manifest):
        row = rows.get(show(place))
        if row is None:
            continue
        if place in differ:
            others = [one for one in (row.writer, *row.also) if one and one.manager != manager]
            if others:
                turns = (Turn("the manifest", wanted), Turn(others[0].name, differ[place]))
                level, note = _level(others[0], manager), _how(others[0])
                yield Contested(Contest.OWNED, level, place, (_party(others[0]),), turns, note)
        elif other := _who_comes_back(row, manager, user):
            note = f"{other.name} and others change it in turn, last at {row.in_turn[-1].time}"
            yield Contested(Contest.OWNED, Level.FIGHT, place, (_party(other),), note=note)


def _who_comes_back(row: BlamedField, manager: str | None, user: str) -> Writer | None:
    """Return who has changed a field again after others had, and is not the one who applies.

    The stored value is the manifest's, so who wrote it last is taken for the one who applies. Who
    changed the field once, as an installer or a migration, does not insist.
    """
    last = row.writer or next(reversed(row.in_turn), None)
    for one in reversed(row.in_turn):
        came_back = sum(map(one.is_same, row.in_turn)) > 1
        is_own = one.manager == manager or one.user == user != ""
        # Of those who apply manifests one may be this one, if nobody said which; a person with
        # kubectl does not insist.
        may_be_own = _is_applier(one) and (manager is None or one.manager.startswith("kubectl"))
        if came_back and not (is_own or may_be_own or (last and last.is_same(one))):
            return one
    return None


def _level(other: Writer, manager: str | None) -> Level:
    applies = other.through == "Apply"
    insists = not (applies or _is_applier(other)) or (manager is not None and applies)
    return Level.FIGHT if insists else Level.NOTE


def _is_applier(writer: Writer) -> bool:
    return writer.manager.lower().startswith(_APPLIERS)


def _party(writer: Writer) -> Party:
    if writer.user:
        return Party("user", writer.user, Confidence.LIKELY, writer.manager)
    name = f"{writer.manager} ({writer.through})"
    return Party("manager", name, Confidence.LIKELY, writer.manager)


def _how(writer: Writer) -> str:
    how = "applies it" if writer.through == "Apply" else "wrote it last"
    return f"{how}, at {writer.time}" if writer.time else how


def joined(live: Iterable[BlamedField], logged: Iterable[BlamedField]) -> Iterator[BlamedField]:
    """Yield the fields of an object, with what two reports of it say.

    live    by managedFields, which know the owner, and by what a server saw
    logged  by an audit log, which knows users, fields that were removed, and who wrote in turn
    """
    rows = {row.field: row for row in live}
    for row in logged:
        here = rows.pop(row.field, None)
        if here is not None:
            yield _with_user(here, row)
        elif row.removed:
            yield row
    yield from rows.values()


def _with_user(live: BlamedField, logged: BlamedField) -> BlamedField:
    newest = max(
        live.in_turn, logged.in_turn, key=lambda one: (one[-1].time if one else "", len(one))
    )
    ours, theirs = live.writer, logged.writer
    writer = ours
    if theirs is not None and theirs.exact and (ours is None or not ours.exact):
        if ours is None:
            writer = theirs
        elif ours.is_same(theirs):
            writer = msgspec.structs.replace(theirs, through=ours.through)
    return msgspec.structs.replace(live, in_turn=newest, writer=writer)


def scaled_by(
    manifest: Mapping[str, Any], served: Served, autoscalers: Iterable[Mapping[str, Any]]
) -> Iterator[Contested]:
    """Yield the replicas that a manifest sets and a HorizontalPodAutoscaler writes."""
    spec = manifest.get("spec")
    replicas = spec.get("replicas") if isinstance(spec, Mapping) else None
    if replicas is None:
        return
    for one in autoscalers:
        target = (one.get("spec") or {}).get("scaleTargetRef") or {}
        group = str(target.get("apiVersion", "")).rpartition("/")[0]
        named = (group, target.get("kind"), target.get("name"))
        if named == (served.group, served.kind, (manifest.get("metadata") or {}).get("name")):
            name = f"HorizontalPodAutoscaler {one['metadata']['name']}"
            turns = (Turn("the manifest", replicas), Turn(name, "what the load needs"))
            party = Party("user", name)
            yield Contested(Contest.OWNED, Level.FIGHT, _REPLICAS, (party,), turns)


def asked_twice(
    manifest: Mapping[str, Any], others: Sequence[Mapping[str, Any]]
) -> Iterator[Contested]:
    """Yield the fields for which another manifest of the same object asks another value."""
    for other in others:
        wanted = {place for place, _ in leaves(other)}
        for one in overwritten(manifest, other):
            if one.order or one.place in wanted:
                turns = (Turn("the manifest", one.before), Turn("another manifest", one.after))
                party = Party("manifest", "another manifest of this object")
                yield Contested(Contest.OWNED, Level.FIGHT, one.place, (party,), turns)

"""Fields of a manifest that somebody else owns, and would write back.

Source: what genguard/blame knows: metadata.managedFields (KEP-555), a running genguard, an audit
        log; and the targets of HorizontalPodAutoscalers (autoscaling/v2
        types.go:CrossVersionObjectReference) and VerticalPodAutoscalers (autoscaler,
        vertical-pod-autoscaler/pkg/apis/autoscaling.k8s.io/v1/types.go)
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from genguard.blame.places import Item, Place, leaves, show
from genguard.blame.report import BlamedField, Writer
from genguard.converge.contest import Contest, Contested, Level, Party, Turn
from genguard.converge.fields import overwritten
from genguard.detection.finding import Confidence
from genguard.objects.served import Served

_REPLICAS: Final[Place] = ("spec", "replicas")
_RESOURCES: Final[Place] = ("spec", "template", "spec", "containers", "resources")
_APPLIERS: Final = (
    *("kubectl", "before-first-apply", "genguard", "helm", "argocd", "kustomize", "flux"),
    *("pulumi", "terraform", "HashiCorp", "ansible", "OpenAPI-Generator", "k9s", "rancher"),
)
"""Beginnings of the names of managers that apply manifests, as this one: they do not insist on what
they applied before."""


def owned_by_others(
    manifest: Mapping[str, Any],
    stored: Mapping[str, Any],
    known: Iterable[BlamedField],
    manager: str | None,
) -> Iterator[Contested]:
    """Yield the fields that others own with another value, or write back each time.

    stored   the object as it is; {} where there is none
    known    who wrote its fields
    manager  who applies the manifest; None where nobody said, so that it may be any applier
    """
    rows = {row.field: row for row in known}
    differ = {one.place: one.after for one in overwritten(manifest, stored) if not one.order}
    for place, wanted in leaves(manifest):
        row = rows.get(show(place))
        if row is None:
            continue
        if other := _writes_back(row, manager):
            level, value, how = Level.FIGHT, differ.get(place, "another value"), "writes it back"
        elif (other := _owns(row, manager)) and place in differ:
            level, value, how = _level(other, manager), differ[place], _how(other)
        else:
            continue
        turns = (Turn("the manifest", wanted), Turn(other.name, value))
        note = f"{how}, at {other.time}" if other.time else how
        yield Contested(Contest.OWNED, level, place, (_party(other),), turns, note)


def _writes_back(row: BlamedField, manager: str | None) -> Writer | None:
    """Return who writes a field again after others wrote it, and does not just apply manifests."""
    if len(row.turns) <= 2:  # noqa: PLR2004 - one after the other: nobody came back
        return None
    others = [one for one in row.turns if not _is_applier(one) and one.manager != manager]
    return others[-1] if others else None


def _owns(row: BlamedField, manager: str | None) -> Writer | None:
    """Return the latest writer or owner of a field who is not the one who applies."""
    found = (row.writer, *row.also)
    return next((one for one in found if one is not None and one.manager != manager), None)


def _level(other: Writer, manager: str | None) -> Level:
    applies = other.through == "Apply"
    insists = not (applies or _is_applier(other)) or (manager is not None and applies)
    return Level.FIGHT if insists else Level.NOTE


def _is_applier(writer: Writer) -> bool:
    return writer.manager.startswith(_APPLIERS)


def _party(writer: Writer) -> Party:
    if writer.user:
        return Party("user", writer.name)
    return Party("manager", f"{writer.name} ({writer.through})", Confidence.LIKELY)


def _how(writer: Writer) -> str:
    return "applies it" if writer.through == "Apply" else "wrote it last"


def latest(live: Iterable[BlamedField], logged: Iterable[BlamedField]) -> Iterator[BlamedField]:
    """Yield the fields of two reports of one object, each with the writer who is known to be last.

    live    by managedFields, and what a server saw
    logged  by an audit log, which knows users; it may have ended before the last write
    """
    rows = {row.field: row for row in live}
    for row in logged:
        here = rows.pop(row.field, None)
        yield row if here is None else _later(here, row)
    yield from rows.values()


def _later(live: BlamedField, logged: BlamedField) -> BlamedField:
    ours, theirs = live.writer, logged.writer
    turns = max(live.turns, logged.turns, key=len)
    if theirs is None or not theirs.exact or logged.removed:
        return msgspec.structs.replace(live, turns=turns)
    # The time of an owner is that of its last change of any field.
    if ours is not None and (ours.exact or ours.manager != theirs.manager):
        is_newer = theirs.time > ours.time
        return msgspec.structs.replace(live, turns=turns, writer=theirs if is_newer else ours)
    through = ours.through if ours is not None else theirs.through
    writer = msgspec.structs.replace(theirs, through=through)
    return msgspec.structs.replace(live, turns=turns, writer=writer)


def scaled_by(
    manifest: Mapping[str, Any], served: Served, autoscalers: Iterable[Mapping[str, Any]]
) -> Iterator[Contested]:
    """Yield the replicas that a manifest sets and a HorizontalPodAutoscaler writes."""
    spec = manifest.get("spec")
    replicas = spec.get("replicas") if isinstance(spec, Mapping) else None
    if replicas is None:
        return
    for one in autoscalers:
        if _targets(one, "scaleTargetRef", manifest, served):
            name = f"HorizontalPodAutoscaler {one['metadata']['name']}"
            turns = (Turn("the manifest", replicas), Turn(name, "what the load needs"))
            party = Party("user", name)
            yield Contested(Contest.OWNED, Level.FIGHT, _REPLICAS, (party,), turns)


def resized_by(
    manifest: Mapping[str, Any], served: Served, autoscalers: Iterable[Mapping[str, Any]]
) -> Iterator[Contested]:
    """Yield the resources of containers that a manifest sets and a VerticalPodAutoscaler replaces.

    It writes them into the pods, and not into this object: so each is a note.
    """
    for one in autoscalers:
        mode = ((one.get("spec") or {}).get("updatePolicy") or {}).get("updateMode")
        if mode == "Off" or not _targets(one, "targetRef", manifest, served):
            continue
        name = f"VerticalPodAutoscaler {one['metadata']['name']}"
        for place, wanted in leaves(manifest):
            if tuple(step for step in place[:-2] if not isinstance(step, Item)) == _RESOURCES:
                turns = (Turn("the manifest", wanted), Turn(name, "what the pods use"))
                note = "only in the pods: their webhook sets it"
                party = Party("user", name)
                yield Contested(Contest.OWNED, Level.NOTE, place, (party,), turns, note)


def _targets(
    autoscaler: Mapping[str, Any], reference: str, manifest: Mapping[str, Any], served: Served
) -> bool:
    """Whether an autoscaler is for the object of a manifest."""
    target = (autoscaler.get("spec") or {}).get(reference) or {}
    group = str(target.get("apiVersion", "")).rpartition("/")[0]
    named = (group, target.get("kind"), target.get("name"))
    return named == (served.group, served.kind, (manifest.get("metadata") or {}).get("name"))


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

"""Fields of a manifest that somebody else owns, and would write back.

Source: metadata.managedFields (KEP-555), and the targets of HorizontalPodAutoscalers
        (autoscaling/v2 types.go:CrossVersionObjectReference)
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from genguard.blame.managed import Manager, owners
from genguard.blame.places import Place, leaves
from genguard.converge.contest import Contest, Contested, Level, Party, Turn
from genguard.converge.fields import overwritten
from genguard.detection.finding import Confidence
from genguard.objects.served import Served

_REPLICAS: Final[Place] = ("spec", "replicas")
_APPLIERS: Final = (
    *("kubectl", "before-first-apply", "genguard", "helm", "argocd", "kustomize", "flux"),
    *("pulumi", "terraform", "HashiCorp", "ansible", "OpenAPI-Generator", "k9s", "rancher"),
)
"""Beginnings of the names of managers that apply manifests, as this one: they do not insist on what
they applied before."""


def owned_by_others(
    manifest: Mapping[str, Any], stored: Mapping[str, Any], manager: str | None
) -> Iterator[Contested]:
    """Yield the fields that others own in a stored object, with another value.

    manager  who applies the manifest; None where nobody said, so that it may be any applier

    Raises UnreadableFieldsError.
    """
    owned = owners(stored)
    for one in overwritten(manifest, stored):
        others = [each for each in owned.get(one.place, ()) if each.manager != manager]
        if others and not one.order:
            other = others[0]
            turns = (Turn("the manifest", one.before), Turn(other.manager, one.after))
            party = Party("manager", _name(other), Confidence.LIKELY)
            is_applier = other.operation == "Apply" or other.manager.startswith(_APPLIERS)
            insists = not is_applier or (manager is not None and other.operation == "Apply")
            level = Level.FIGHT if insists else Level.NOTE
            yield Contested(Contest.OWNED, level, one.place, (party,), turns, note=_how(other))


def _name(manager: Manager) -> str:
    return f"{manager.manager} ({manager.through})"


def _how(manager: Manager) -> str:
    how = "applies it" if manager.operation == "Apply" else "wrote it last"
    return f"{how}, at {manager.time}" if manager.time else how


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

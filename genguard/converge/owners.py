"""Fields of a manifest that somebody else owns, and would write back.

Source: what genguard/blame knows: metadata.managedFields (KEP-555), a running genguard, an audit
        log; and the targets of autoscalers (autoscaling/v2 types.go:CrossVersionObjectReference,
        keda apis/keda/v1alpha1/scaledobject_types.go:ScaleTarget)
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from genguard.blame.field_paths import FieldPath, leaves, show
from genguard.blame.report import BlamedField, Writer
from genguard.converge.contest import Contest, Contested, CycleStep, Level, Party
from genguard.converge.fields import overwritten
from genguard.detection.finding import Confidence
from genguard.objects.fields import get, items
from genguard.objects.served import Served

_REPLICAS: Final[FieldPath] = ("spec", "replicas")
_VERTICAL: Final = "VerticalPodAutoscaler"
_CONTAINERS: Final[FieldPath] = ("spec", "template", "spec", "containers")
_OF_RESOURCE: Final = len(_CONTAINERS) + 4
"""Steps to `containers[web].resources.requests.cpu`."""
_REQUESTS: Final = "RequestsOnly"
_PAUSED: Final = "autoscaling.keda.sh/paused"
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
    asked = dict(leaves(manifest))
    empty = (path for path, value in asked.items() if value == [])
    fought = frozenset(path for path in empty if any(map(returned, _below(path, rows))))
    differ = {
        difference.path: difference
        for difference in overwritten(manifest, stored, fought)
        if not difference.order
    }
    asked |= {path: difference.before for path, difference in differ.items()}
    for path, wanted in asked.items():
        row = rows.get(show(path)) or next(_below(path, rows), None)
        if row is None:
            continue
        if path in differ:
            others = [by for by in (row.writer, *row.also) if by and by.manager != manager]
            if others:
                cycle = (
                    CycleStep("the manifest", wanted),
                    CycleStep(others[0].name, differ[path].after),
                )
                rest = [rows[field] for field in map(show, asked) if field in rows]
                level, note = _level(others[0], manager, rest), _how(others[0], manager)
                yield Contested(Contest.OWNED, level, path, (_party(others[0]),), cycle, note)
        elif other := _who_comes_back(row, manager, user):
            note = f"{other.name} and others change it in turn, last at {row.in_turn[-1].time}"
            yield Contested(Contest.OWNED, Level.FIGHT, path, (_party(other),), note=note)


def _who_comes_back(row: BlamedField, manager: str | None, user: str) -> Writer | None:
    """Return who has changed a field again after others had, and is not the one who applies.

    The stored value is the manifest's, so who wrote it last is taken for the one who applies. Who
    changed the field once, as an installer or a migration, does not insist.
    """
    last = row.writer or next(reversed(row.in_turn), None)
    for writer in reversed(row.in_turn):
        came_back = sum(map(writer.is_same, row.in_turn)) > 1
        is_own = writer.manager == manager or writer.user == user != ""
        # Any of those who apply manifests may be this one, if nobody said which; a person with
        # kubectl does not insist.
        may_be_own = _is_applier(writer) and (
            manager is None or writer.manager.startswith("kubectl")
        )
        if came_back and not (is_own or may_be_own or (last and last.is_same(writer))):
            return writer
    return None


def _below(path: FieldPath, rows: Mapping[str, BlamedField]) -> Iterator[BlamedField]:
    begins = f"{show(path)}.", f"{show(path)}["
    return (row for name, row in rows.items() if name.startswith(begins))


def returned(row: BlamedField) -> bool:
    """Whether somebody has changed a field again after others had."""
    return any(sum(map(writer.is_same, row.in_turn)) > 1 for writer in row.in_turn)


def _level(other: Writer, manager: str | None, rest: Sequence[BlamedField]) -> Level:
    """Say whether an owner insists; `rest` is what is known of all fields of the manifest.

    Who applies holds on to a value, unless it may be the one who applies this manifest: a known
    tool, where nobody said who, that has applied most of the rest, too.
    """
    if other.through != "Apply":
        return Level.NOTE if _is_applier(other) else Level.FIGHT
    own = sum(any(by and by.is_same(other) for by in (row.writer, *row.also)) for row in rest)
    may_be_own = manager is None and _is_applier(other) and 2 * own >= len(rest)
    return Level.NOTE if may_be_own else Level.FIGHT


def _is_applier(writer: Writer) -> bool:
    return writer.manager.lower().startswith(_APPLIERS)


def _party(writer: Writer) -> Party:
    if writer.user:
        return Party("user", writer.user, Confidence.LIKELY, writer.manager)
    name = f"{writer.manager} ({writer.through})"
    return Party("manager", name, Confidence.LIKELY, writer.manager)


def _how(writer: Writer, manager: str | None) -> str:
    applies = writer.through == "Apply"
    how = "applies it" if applies else "wrote it last"
    told = f"{how}, at {writer.time}" if writer.time else how
    is_asked = applies and manager is None
    return f"{told}; if this is its manifest, give --field-manager" if is_asked else told


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
        live.in_turn,
        logged.in_turn,
        key=lambda writer: (writer[-1].time if writer else "", len(writer)),
    )
    ours, theirs = live.writer, logged.writer
    writer = ours
    if theirs is not None and theirs.exact and (ours is None or not ours.exact):
        if ours is None:
            writer = theirs
        elif ours.is_same(theirs):
            writer = msgspec.structs.replace(theirs, through=ours.through)
    return msgspec.structs.replace(live, in_turn=newest, writer=writer)


_SCALERS: Final[Mapping[tuple[str, str], str]] = {
    ("autoscaling", "HorizontalPodAutoscaler"): "scaleTargetRef",
    ("keda.sh", "ScaledObject"): "scaleTargetRef",
    ("autoscaling.k8s.io", _VERTICAL): "targetRef",
}
"""How kinds that size others name their target."""
_TARGET: Final = {"apiVersion": "apps/v1", "kind": "Deployment"}
"""What KEDA takes where a target does not say it."""


def scaled_by(
    manifest: Mapping[str, Any], served: Served, autoscalers: Iterable[Mapping[str, Any]]
) -> Iterator[Contested]:
    """Yield the fields that a manifest sets and an autoscaler writes, of it or of its pods."""
    named = served.group, served.kind, get(manifest, "metadata", "name")
    for autoscaler in autoscalers:
        kind, spec = str(autoscaler.get("kind", "HorizontalPodAutoscaler")), autoscaler.get("spec")
        group = str(autoscaler.get("apiVersion", "autoscaling/v2")).rpartition("/")[0]
        target = get(spec, _SCALERS.get((group, kind), ""))
        if not isinstance(target, Mapping):
            continue
        target = {**_TARGET, **target}
        of = str(target.get("apiVersion", "")).rpartition("/")[0]
        if (of, target.get("kind"), target.get("name")) != named:
            continue
        name = f"{kind} {get(autoscaler, 'metadata', 'name')}"
        party, fields = Party("user", name), _sized if kind == _VERTICAL else _counted
        for path, wanted in fields(manifest, autoscaler):
            cycle = (CycleStep("the manifest", wanted), CycleStep(name, "what the load needs"))
            yield Contested(Contest.OWNED, Level.FIGHT, path, (party,), cycle)


def _counted(
    manifest: Mapping[str, Any], scaler: Mapping[str, Any]
) -> Iterator[tuple[FieldPath, Any]]:
    """Yield the replicas; not those that an autoscaler leaves alone, or wants as well."""
    replicas, spec = get(manifest, *_REPLICAS), scaler["spec"]
    is_horizontal = "maxReplicas" in spec
    is_fixed = is_horizontal and spec.get("minReplicas", 1) == spec["maxReplicas"] == replicas
    # podautoscaler/horizontal.go: a target of 0 replicas is not scaled, unless 0 is allowed.
    is_off = is_horizontal and replicas == 0 and spec.get("minReplicas") != 0
    is_paused = get(scaler, "metadata", "annotations", _PAUSED) == "true"
    if isinstance(replicas, int) and not (is_fixed or is_off or is_paused):
        yield _REPLICAS, replicas


def _sized(
    manifest: Mapping[str, Any], scaler: Mapping[str, Any]
) -> Iterator[tuple[FieldPath, Any]]:
    """Yield requests and limits of containers that are written into their pods.

    autoscaler vertical-pod-autoscaler pkg/apis/autoscaling.k8s.io/v1/types.go
    """
    policies = items(get(scaler, "spec", "resourcePolicy", "containerPolicies"))
    by_name = {
        policy.get("containerName"): policy for policy in policies if isinstance(policy, Mapping)
    }
    is_off = get(scaler, "spec", "updatePolicy", "updateMode") == "Off"
    for path, wanted in () if is_off else leaves(manifest):
        if path[:4] != _CONTAINERS or path[5:6] != ("resources",) or len(path) != _OF_RESOURCE:
            continue
        policy = by_name.get(path[4], by_name.get("*", {}))
        controlled = policy.get("controlledResources") or ("cpu", "memory")
        is_left = policy.get("mode") == "Off" or path[7] not in controlled
        if not (is_left or (path[6] == "limits" and policy.get("controlledValues") == _REQUESTS)):
            yield path, wanted


def asked_twice(
    manifest: Mapping[str, Any], others: Sequence[Mapping[str, Any]]
) -> Iterator[Contested]:
    """Yield the fields for which another manifest of the same object asks another value."""
    for other in others:
        wanted = {path for path, _ in leaves(other)}
        for difference in overwritten(manifest, other):
            if difference.order or difference.path in wanted:
                cycle = (
                    CycleStep("the manifest", difference.before),
                    CycleStep("another manifest", difference.after),
                )
                party = Party("manifest", "another manifest of this object")
                yield Contested(Contest.OWNED, Level.FIGHT, difference.path, (party,), cycle)

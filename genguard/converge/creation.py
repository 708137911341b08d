"""Creations to send as dry runs, and what webhooks and policies take from them.

Many webhooks are called for creations alone, so no update of the object shows what they do.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple

import msgspec

from genguard.admission.matching import Matched, Registration
from genguard.blame.field_paths import FieldPath, Item, leaves, show
from genguard.converge.chain import Document
from genguard.converge.fields import overlay, overwritten
from genguard.detection.since import first_version
from genguard.generation.strategy import parse_version
from genguard.objects.fields import ABSENT, from_pointer, get, to_pointer
from genguard.objects.metadata import SET_BY_SERVER
from genguard.objects.selectors import Truth
from genguard.objects.served import Served, UnknownTargetError, find
from genguard.shipped import shipped

PODS: Final = Served(
    "", "v1", "pods", "pod", "Pod", ("po",), namespaced=True, has_status=True, watchable=True
)
_TEMPLATE: Final[FieldPath] = ("spec", "template")
TEMPLATES: Final[Mapping[str, FieldPath]] = {
    **dict.fromkeys(("DaemonSet", "Deployment", "Job", "ReplicaSet", "StatefulSet"), _TEMPLATE),
    "CronJob": ("spec", "jobTemplate", *_TEMPLATE),
}
"""Where a kind has the template of its pods."""
_OF_TEMPLATE: Final = re.compile(r"(/spec/jobTemplate)?((/spec)?/template)?(?=/)")
_MOST_SITES: Final = 16


def pod_of(workload: Mapping[str, Any]) -> Document:
    """Return a pod as the controller of a workload creates it; {} where there is no template."""
    template = get(workload, *TEMPLATES.get(workload.get("kind", ""), ("",)))
    spec, claims = get(template, "spec"), get(workload, "spec", "volumeClaimTemplates")
    if not isinstance(spec, dict):
        return {}
    given = {key: get(template, "metadata", key) for key in ("labels", "annotations")}
    metadata = {key: value for key, value in given.items() if value is not ABSENT}
    metadata["generateName"] = f"{workload['metadata']['name']}-"
    if isinstance(claims, list):
        names = [claim["metadata"]["name"] for claim in claims]
        volumes = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in names]
        spec = {**spec, "volumes": [*(spec.get("volumes") or ()), *volumes]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def copy_of(stored: Document, owner: Mapping[str, Any]) -> Document:
    """Return what creates another such object, with all that the template of an owner asks for."""
    pod = pod_of(owner) if stored.get("kind") == PODS.kind else {}
    made: Document = overlay({key: stored[key] for key in stored if key != "status"}, pod)
    kept = {key: value for key, value in made["metadata"].items() if key not in SET_BY_SERVER}
    kept["generateName"] = made["metadata"].get("generateName") or f"{stored['metadata']['name']}-"
    return {**made, "metadata": kept}


def taken(sent: Document, made: Document) -> dict[str, str]:
    """Return which fields of a creation are not kept, as `spec.initContainers[*].restartPolicy`."""
    return {show(path): how for path, how in _taken(sent, made).items()}


def _taken(sent: Document, made: Document) -> dict[FieldPath, str]:
    lost = [loss for loss in overwritten(sent, made) if not loss.is_omitted]
    return {_of_any(loss.path): "removed" if loss.after is ABSENT else "changed" for loss in lost}


def _of_any(path: FieldPath) -> FieldPath:
    return tuple(Item("*") if isinstance(step, Item) else step for step in path)


def samples() -> Mapping[str, Any]:
    """Return samples.yaml: complete objects, and since when servers have fields by default."""
    return shipped("genguard.converge", "samples.yaml", dict[str, Any])


def as_known(sample: Document, of: Served, version: str) -> Document:
    """Return a sample without the fields that a server of this version drops by itself."""
    later, server = samples()["since"], parse_version(version)

    def is_known(path: FieldPath) -> bool:
        pointer = to_pointer(path)
        since = later.get(_of_pod(pointer)) or first_version(*of.of, pointer)
        return since is None or parse_version(since) <= server

    def pruned(value: Any, path: FieldPath) -> Any:
        if isinstance(value, list):
            return [pruned(item, (*path, "*")) for item in value]
        if not isinstance(value, dict):
            return value
        return {key: pruned(value[key], (*path, key)) for key in value if is_known((*path, key))}

    return dict(pruned(sample, ()))


def samples_of(kinds: Sequence[Served], version: str) -> Iterator[tuple[Served, Document]]:
    """Yield what is served, and a complete object of each kind for a server of this version."""
    for sample in samples()["samples"]:
        group, _, own = sample["apiVersion"].rpartition("/")
        with suppress(UnknownTargetError):  # an older server
            of = find(f"{sample['kind']}.{own}.{group}", kinds)
            yield of, as_known(sample, of, version)


def _of_pod(pointer: str) -> str:
    """Return a field of a template as that of the pod, or of the Job."""
    found = _OF_TEMPLATE.match(pointer)
    return pointer[found.end() :] if found else pointer


class Site(NamedTuple):
    """Where a kind is created, and who is called; `sure`: whatever a condition or label says."""

    of: Served
    namespace: str
    called: frozenset[str]
    sure: frozenset[str]


Ages = tuple[int, int]
"""Since which 1.x a field is known, and the newest that is kept beside it, which may be below;
0 is what 1.26 has."""
Tried = tuple[Site, Mapping[str, Ages]]
"""Where an object was created, and what was lost, by pointer; `*` is any index."""


def sites(
    of: Served,
    labels: Mapping[str, str],
    namespaces: Mapping[str, Mapping[str, str] | None],
    registered: Sequence[Registration],
) -> list[Site]:
    """Return a site for each set of webhooks and policies that are called together.

    namespaces  the preferred first, with their labels; None where these are not known
    """
    found: dict[frozenset[str], Site] = {}
    given = msgspec.json.encode(labels)
    for name, known in namespaces.items():
        kind = of.group, of.version, of.resource
        write = Matched(*kind, "", "CREATE", name, "", given, given, known)
        truths = [
            (registration.name, registration.covers(write), registration.conditions)
            for registration in registered
            if not registration.phase
        ]
        called = frozenset(who for who, truth, _ in truths if truth is not Truth.FALSE)
        sure = frozenset(who for who, truth, limits in truths if truth is Truth.TRUE and not limits)
        found.setdefault(called, Site(of, name, called, sure))
    return [*found.values()][:_MOST_SITES]


def lost_fields(of: Served, sent: Document, made: Document) -> dict[str, Ages]:
    """Return what was removed of a creation, by pointer.

    A newer field counts as a whole, even if a default has come in its place. A changed value of
    another field does not count: many webhooks are there to change values.
    """

    def since(pointer: str) -> int:
        return parse_version(first_version(*of.of, pointer) or "1.0")[1]

    found: dict[str, int] = {}
    for path, how in _taken(sent, made).items():
        at = [to_pointer(path[: n + 1]) for n in range(len(path))]
        if (age := since(at[-1])) or how == "removed":
            found[next(pointer for pointer in at if since(pointer) == age) if age else at[-1]] = age
    gone = tuple(f"{at}/" for at in found)
    sent_at = (to_pointer(_of_any(path)) for path, _ in leaves(sent))
    kept = {at: since(at) for at in sent_at if not f"{at}/".startswith(gone)}

    def beside(lost: str) -> int:
        above = f"{lost.rpartition('/')[0]}/"
        return max((age for at, age in kept.items() if at.startswith(above)), default=0)

    return {at: (age, beside(at)) for at, age in found.items()}


def as_people_read(pointer: str) -> str:
    """Return a pointer as `spec.initContainers[*].restartPolicy`."""
    return show(tuple(Item(step) if step == "*" else step for step in from_pointer(pointer)))


def built_with(lost: Collection[Ages]) -> str:
    """Say with which API a webhook is built that keeps some fields and not others.

    Who keeps a newer field of the same object knows its type, so its age explains nothing.
    """
    first = min((since for since, _ in lost if since), default=0)
    kept = max(beside for _, beside in lost)
    if not first:
        return ""
    if kept >= first:
        return f"; it keeps fields of Kubernetes 1.{kept} beside them, so its API is not too old"
    versions = f"1.{kept} to 1.{first - 1}" if 0 < kept < first - 1 else f"1.{first - 1}"
    return f"; it is built with the API of Kubernetes {versions}{'' if kept else ' or older'}"


def find_strippers(
    tried: Sequence[Tried], registered: Iterable[Registration]
) -> dict[tuple[str, ...], dict[tuple[Served, str], Ages]]:
    """Return what each takes away, or one of several; who does it alone explains the others.

    A webhook that kept a field is not named, and none is for a field that is lost where none is
    called: then the API server drops it. PodTemplates, of which few are told, show that for all
    pods.
    """
    policies = {
        registration.name: registration for registration in registered if registration.bindings
    }
    by_server = {_of_pod(at) for site, fields in tried if not site.called for at in fields}
    candidates = []
    for site, fields in tried:
        for at in (field for field in fields if _of_pod(field) not in by_server):
            kept = [other.sure for other, lost in tried if other.of == site.of and at not in lost]
            able = {name for name in site.called if name not in policies or policies[name].sets(at)}
            candidates.append((sorted(able.difference(*kept)), site.of, at, fields[at]))
    found: dict[tuple[str, ...], dict[tuple[Served, str], Ages]] = {}
    sure: set[tuple[str, str]] = set()
    for who, of, at, ages in sorted(candidates, key=lambda row: len(row[0])):
        if sure.isdisjoint((name, _of_pod(at)) for name in who) or len(who) == 1:
            found.setdefault(tuple(who), {})[of, at] = ages
            sure |= {(name, _of_pod(at)) for name in who if len(who) == 1}
    return found

"""What becomes of an object between the request and the store, before generation is counted.

Source: the strategies of the API server, pkg/registry/*/*/strategy.go: PrepareForCreate and
PrepareForUpdate, and apiserver pkg/registry/rest/create.go and update.go.
"""

import base64
import copy
import re
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from genguard.testing.refusals import bad_request, invalid_object, no_such_path
from genguard.testing.resources import Resource
from genguard.testing.schema import fill_defaults, find_problems
from genguard.testing.shapes import BuiltIn, drop_unknown, fill_builtin_defaults

Document = dict[str, Any]

_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LONGEST_NAME: Final = 253
_FREE_NAMES: Final = frozenset({"rbac.authorization.k8s.io"})
"""Groups whose objects may be called what fits into a path: `system:node`."""
SERVER_FIELDS: Final = (
    "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds",
    "generation", "selfLink",
)  # fmt: skip
"""Fields of metadata that clients cannot change."""


def timestamp(at: datetime, later: int = 0) -> str:
    """Return a time as objects have it, so many seconds later."""
    at = at.replace(microsecond=0) + timedelta(seconds=later)
    return at.isoformat().replace("+00:00", "Z")


def check_name(resource: Resource, name: str) -> None:
    """Raise RequestRefusedError for a name that the API server refuses."""
    if resource.group in _FREE_NAMES:
        fits = name not in (".", "..") and not set(name) & {"/", "%"}
    else:
        fits = len(name) <= _LONGEST_NAME and _NAME.fullmatch(name) is not None
    if not fits:
        why = (
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, "
            "'-' or '.', and must start and end with an alphanumeric character"
        )
        cause = ("metadata.name", f'Invalid value: "{name}": {why}')
        raise invalid_object(resource.kind, name, [cause], resource.group)


def complete(resource: Resource, document: Document, validation: str) -> list[str]:
    """Drop unknown fields and fill in defaults, in place; return what to warn of.

    validation  what the request has as fieldValidation: `Strict` refuses unknown fields.
    Raise RequestRefusedError.
    """
    _convert_text_of_secret(resource, document)
    unknown = drop_unknown(resource.shape, document)
    if unknown and validation == "Strict":
        fields = ", ".join(f'unknown field "{path}"' for path in unknown)
        raise bad_request(f"strict decoding error: {fields}")
    if resource.schema is not None:
        fill_defaults(resource.schema, document)
    elif isinstance(resource.shape, BuiltIn):
        fill_builtin_defaults(resource.shape, document)
    return [] if validation == "Ignore" else [f'unknown field "{path}"' for path in unknown]


def validate(resource: Resource, document: Document) -> None:
    """Raise RequestRefusedError where the schema of a custom resource forbids what is there.

    Built-in kinds are not validated.
    """
    if resource.schema is None:
        return
    problems = list(find_problems(resource.schema, document))
    if problems:
        name = document["metadata"].get("name", "")
        raise invalid_object(resource.kind, name, problems, resource.group)


def _convert_text_of_secret(resource: Resource, document: Document) -> None:
    if resource.key != ("", "secrets"):
        return
    texts = document.pop("stringData", None) or {}
    if texts:
        data = document.get("data") or {}
        encoded = {
            key: base64.b64encode(str(text).encode()).decode() for key, text in texts.items()
        }
        document["data"] = {**data, **encoded}


def prepare_new(resource: Resource, document: Document) -> None:
    """Set what a create sets, in place: the status is not taken where it has a subresource."""
    if resource.has_status:
        document.pop("status", None)
        if not resource.is_custom:
            document["status"] = {}  # a struct in Go, which is there though it is empty
    if not resource.group and resource.plural in _PENDING:
        document["status"] = {"phase": "Pending"}
    first = _FIRST.get(resource.key)
    if first is not None:
        first(document)


def _first_namespace(document: Document) -> None:
    finalizers = document.setdefault("spec", {}).setdefault("finalizers", [])
    if "kubernetes" not in finalizers:
        finalizers.append("kubernetes")
    labels = document["metadata"].setdefault("labels", {})
    labels["kubernetes.io/metadata.name"] = document["metadata"]["name"]
    document["status"] = {"phase": "Active"}


def _protected_by(finalizer: str) -> Callable[[Document], None]:
    """Return what admission plugins of the API server do with a new object."""

    def protect(document: Document) -> None:
        finalizers = document["metadata"].setdefault("finalizers", [])
        if finalizer not in finalizers:
            finalizers.append(finalizer)

    return protect


_FIRST: Final[dict[tuple[str, str], Callable[[Document], None]]] = {
    ("", "namespaces"): _first_namespace,
    ("", "persistentvolumeclaims"): _protected_by("kubernetes.io/pvc-protection"),
    ("", "persistentvolumes"): _protected_by("kubernetes.io/pv-protection"),
    ("scheduling.k8s.io", "podgroups"): _protected_by("scheduling.k8s.io/podgroup-protection"),
    ("storage.k8s.io", "volumeattributesclasses"): _protected_by("kubernetes.io/vac-protection"),
}
_PENDING: Final = frozenset({"pods", "persistentvolumeclaims", "persistentvolumes"})


def prepare_update(
    resource: Resource, subresource: str, old: Mapping[str, Any], asked: Document
) -> Document:
    """Return what an update of the object or of a subresource stores, without generation."""
    stored = copy.deepcopy(dict(old))
    take = _TAKEN.get(subresource)
    if take is not None:
        new = stored
        take(new, asked)
        if subresource in _WITH_METADATA and not resource.is_custom:
            new["metadata"] = asked.get("metadata", {})
    else:
        new = asked
        if resource.has_status:
            _take_status(new, stored)
    metadata = new.setdefault("metadata", {})
    for name in SERVER_FIELDS:
        metadata.pop(name, None)
        if name in old["metadata"]:
            metadata[name] = old["metadata"][name]
    return new


def _take_status(new: Document, asked: Document) -> None:
    _take(new, asked, ("status",))


def _take_ephemeral_containers(new: Document, asked: Document) -> None:
    if (asked.get("spec") or {}).get("ephemeralContainers"):
        new["spec"]["ephemeralContainers"] = asked["spec"]["ephemeralContainers"]
    else:
        new["spec"].pop("ephemeralContainers", None)


def _take_resources(new: Document, asked: Document) -> None:
    spec = asked.get("spec") or {}
    _take(new["spec"], spec, ("resources",))
    for each in ("containers", "initContainers"):
        mine, theirs = new["spec"].get(each) or [], spec.get(each) or []
        names = [[container.get("name") for container in listed] for listed in (mine, theirs)]
        if names[0] != names[1]:
            cause = ("spec", "Forbidden: pod resize may not add, remove or rename containers")
            raise invalid_object("Pod", new["metadata"].get("name", ""), [cause])
        for container, other in zip(mine, theirs, strict=True):
            _take(container, other, ("resources", "resizePolicy"))


def _take(mine: Document, theirs: Mapping[str, Any], names: tuple[str, ...]) -> None:
    for name in names:
        mine.pop(name, None)
        if name in theirs:
            mine[name] = theirs[name]


def _take_approval(new: Document, asked: Document) -> None:
    conditions = (asked.get("status") or {}).get("conditions")
    new.setdefault("status", {})["conditions"] = conditions or []


def _take_finalizers(new: Document, asked: Document) -> None:
    finalizers = (asked.get("spec") or {}).get("finalizers") or []
    new.setdefault("spec", {})["finalizers"] = finalizers


_TAKEN: Final[dict[str, Callable[[Document, Document], None]]] = {
    "status": _take_status,
    "ephemeralcontainers": _take_ephemeral_containers,
    "resize": _take_resources,
    "approval": _take_approval,
    "finalize": _take_finalizers,
}
_WITH_METADATA: Final = frozenset({"status", "ephemeralcontainers", "resize"})
"""Subresources of built-in kinds that take metadata, too."""


def check_finalizers(resource: Resource, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    """Raise RequestRefusedError where a finalizer is added to an object that is being deleted."""
    if "deletionTimestamp" not in old["metadata"]:
        return
    before, after = (set(document["metadata"].get("finalizers") or ()) for document in (old, new))
    added = sorted(after - before)
    if added:
        text = f"Forbidden: no new finalizers can be added if the object is being deleted: {added}"
        cause = ("metadata.finalizers", text)
        raise invalid_object(resource.kind, new["metadata"]["name"], [cause], resource.group)


def read_scale(resource: Resource, document: Mapping[str, Any]) -> Document:
    """Return the Scale of an object, as autoscaling/v1 has it."""
    paths = resource.scale
    if paths is None:
        raise no_such_path()
    metadata = document["metadata"]
    shown = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    status: Document = {"replicas": read_path(document, paths.status_replicas) or 0}
    selector = _selector_text(document) if not resource.is_custom else ""
    if resource.is_custom and paths.selector:
        selector = read_path(document, paths.selector) or ""
    if selector:
        status["selector"] = selector
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {name: metadata[name] for name in shown if name in metadata},
        "spec": {"replicas": read_path(document, paths.spec_replicas) or 0},
        "status": status,
    }


def take_scale(resource: Resource, old: Mapping[str, Any], scale: Mapping[str, Any]) -> Document:
    """Return an object with the replicas that its Scale asks for."""
    paths = resource.scale
    wanted = (scale.get("spec") or {}).get("replicas", 0)
    if type(wanted) is not int or wanted < 0:
        cause = ("spec.replicas", f"Invalid value: {wanted!r}: must be greater than or equal to 0")
        raise invalid_object("Scale", old["metadata"]["name"], [cause], "autoscaling")
    new = copy.deepcopy(dict(old))
    *parents, last = (paths.spec_replicas if paths else "").strip(".").split(".")
    parent = new
    for name in parents:
        parent = parent.setdefault(name, {})
    parent[last] = wanted
    return new


def read_path(document: Mapping[str, Any], path: str) -> Any:
    """Return what a path like `.spec.replicas` names; None where it is not there."""
    found: Any = document
    for name in path.strip(".").split("."):
        found = found.get(name) if isinstance(found, Mapping) else None
    return found


def _selector_text(document: Mapping[str, Any]) -> str:
    selector = read_path(document, ".spec.selector") or {}
    labels = selector.get("matchLabels", {} if "matchExpressions" in selector else selector)
    found = [f"{key}={value}" for key, value in sorted(labels.items())]
    for expression in (
        selector.get("matchExpressions") or () if "matchExpressions" in selector else ()
    ):
        key, values = expression["key"], ",".join(sorted(expression.get("values") or ()))
        words = {"In": f"{key} in ({values})", "NotIn": f"{key} notin ({values})"}
        words |= {"Exists": key, "DoesNotExist": f"!{key}"}
        found.append(words.get(expression["operator"], key))
    return ",".join(found)

"""Render kustomizations: the part of kustomize that manifests/ uses.

`make chart` runs it: what it renders is what `genguard install` applies and what the chart says.

Reads   kustomization.yaml, resources, components, JSON 6902 patches, labels and replicas
Result  the documents in kustomize's order: namespaces first, webhook configurations last
Relies  on strictness: an unknown field is an error, and a test compares every overlay with
        `kubectl kustomize`
"""

import json
import posixpath
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from itertools import product
from pathlib import Path
from typing import Any, Final

import jsonpatch
import yaml

import manifests
from webhook.manifest.documents import Document
from webhook.manifest.rendering import REGISTRATIONS_ALONE, RENDERED

Read = Callable[[str], bytes]

# kustomize api/resmap: kinds that others depend on come first, webhook configurations last.
_FIRST: Final = (
    "Namespace", "ResourceQuota", "StorageClass", "CustomResourceDefinition", "ServiceAccount",
    "Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding", "ConfigMap", "Secret", "Endpoints",
    "Service", "LimitRange", "PriorityClass", "PersistentVolume", "PersistentVolumeClaim",
    "Deployment", "StatefulSet", "CronJob", "PodDisruptionBudget",
)  # fmt: skip
_LAST: Final = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")


class UnreadableManifestError(Exception):
    """A manifest uses a part of kustomize that is not supported here; the message names it."""


def build(folder: str, read: Read) -> list[Document]:
    """Render all documents of a kustomization. `read` returns a file by its path.

    Raises UnreadableManifestError, and whatever `read` raises.
    """
    return sorted(_build(folder, read, []), key=_order)


def _order(document: Document) -> tuple[int, str, str, str]:
    kind, metadata = document["kind"], document["metadata"]
    if kind in _FIRST:
        place = _FIRST.index(kind) - len(_FIRST)
    else:
        place = _LAST.index(kind) + 1 if kind in _LAST else 0
    return place, kind, metadata.get("namespace", ""), metadata["name"]


def _build(folder: str, read: Read, given: Sequence[Document]) -> list[Document]:
    """Apply a kustomization or component to the given documents."""
    (spec,) = _documents(read, posixpath.join(folder, "kustomization.yaml"))
    documents = list(given)
    steps: dict[str, Callable[[Any], None]] = {
        "apiVersion": _nothing,
        "kind": _nothing,
        "resources": lambda names: documents.extend(_resources(folder, read, names)),
        "components": lambda names: _components(folder, read, names, documents),
        "patches": lambda patches: _patch(folder, read, patches, documents),
        "labels": lambda labels: _label(labels, documents),
        "replicas": lambda counts: _scale(counts, documents),
    }
    _known(spec, steps, folder)
    for field, step in steps.items():  # in the order of kustomize
        if field in spec:
            step(spec[field])
    return documents


def _nothing(_: Any) -> None:
    """Ignore apiVersion and kind of the file itself."""


def _resources(folder: str, read: Read, names: Sequence[str]) -> Iterator[Document]:
    for name in names:
        path = posixpath.normpath(posixpath.join(folder, name))
        yield from _documents(read, path) if name.endswith(".yaml") else _build(path, read, [])


def _components(folder: str, read: Read, names: Sequence[str], documents: list[Document]) -> None:
    for name in names:
        path = posixpath.normpath(posixpath.join(folder, name))
        documents[:] = _build(path, read, documents)


def _patch(
    folder: str, read: Read, patches: Sequence[Mapping[str, Any]], documents: list[Document]
) -> None:
    for patch in patches:
        _known(patch, ("target", "path", "patch"), folder)
        _known(patch["target"], ("kind", "name"), folder)
        if "path" in patch:
            text = read(posixpath.join(folder, patch["path"]))
        else:
            text = patch["patch"].encode()
        operations = _loaded(text, folder)
        for document in _selected(patch["target"], documents):
            # Each document needs its own copy: a later patch may add to it.
            jsonpatch.apply_patch(document, deepcopy(operations), in_place=True)


def _label(labels: Sequence[Mapping[str, Any]], documents: Sequence[Document]) -> None:
    for one in labels:
        _known(one, ("pairs",), "labels")
        for document in documents:
            document["metadata"].setdefault("labels", {}).update(one["pairs"])


def _scale(counts: Sequence[Mapping[str, Any]], documents: list[Document]) -> None:
    for one in counts:
        _known(one, ("name", "count"), "replicas")
        for document in _selected({"kind": "Deployment", "name": one["name"]}, documents):
            document["spec"]["replicas"] = one["count"]


def _selected(target: Mapping[str, str], documents: Sequence[Document]) -> list[Document]:
    """Select documents; kind and name are regular expressions for the whole text."""
    kind, name = target.get("kind", ".*"), target.get("name", ".*")
    return [
        one
        for one in documents
        if re.fullmatch(kind, one["kind"]) and re.fullmatch(name, one["metadata"]["name"])
    ]


def _documents(read: Read, path: str) -> list[Document]:
    return [one for one in yaml.load_all(read(path), Loader=yaml.CSafeLoader) if one is not None]


def _loaded(text: bytes, where: str) -> list[dict[str, Any]]:
    found = yaml.load(text, Loader=yaml.CSafeLoader)
    if not isinstance(found, list):
        raise UnreadableManifestError(f"{where}: a patch must be a list of operations")
    return found


def _known(spec: Mapping[str, Any], fields: Any, where: str) -> None:
    unknown = sorted(set(spec) - set(fields))
    if unknown:
        raise UnreadableManifestError(f"{where}: {', '.join(unknown)} is not supported")


def rendered(read: Read = manifests.read) -> str:
    """Render every combination of components that `genguard install` may choose, as JSON.

    Each document stands once, on a line of its own; a combination lists the numbers of its own.
    """
    numbers: dict[str, int] = {}
    chosen = {}
    for name, (overlay, components) in _combinations().items():
        documents = (
            build(overlay, read)
            if name == REGISTRATIONS_ALONE
            else build("install", _installing(overlay, components, read))
        )
        texts = [json.dumps(one, sort_keys=True, ensure_ascii=False) for one in documents]
        chosen[name] = [numbers.setdefault(text, len(numbers)) for text in texts]
    lines = ",\n".join(numbers)
    names = ",\n".join(f"{json.dumps(name)}: {found}" for name, found in chosen.items())
    return f'{{"combinations": {{\n{names}\n}}, "documents": [\n{lines}\n]}}\n'


def _combinations() -> Mapping[str, tuple[str, tuple[str, ...]]]:
    """What is rendered beforehand, by name: an overlay, and the components added to its base."""
    found: dict[str, tuple[str, tuple[str, ...]]] = {
        REGISTRATIONS_ALONE: ("base/registrations", ())
    }
    stores = (), ("replicas",), ("valkey", "replicas")
    for pair, follow, store, heal in product(
        ("tls", "cert-manager"), (False, True), stores, (None, False, True)
    ):
        components = (pair, *store, *(["follow"] * follow), *(["heal"] * bool(heal)))
        overlay = "audit-only" if heal is None else "enforce"
        found[f"{overlay} {' '.join(components)}"] = f"overlays/{overlay}", components
    return found


def _installing(overlay: str, components: Sequence[str], read: Read) -> Read:
    """Read an overlay with these components in place of its own."""
    spec = yaml.safe_load(read(f"{overlay}/kustomization.yaml"))
    spec["resources"] = ["../base"]
    spec["components"] = [f"../{one}" for one in components]
    text = yaml.safe_dump(spec).encode()
    return lambda path: text if path == "install/kustomization.yaml" else read(path)


if __name__ == "__main__":
    (Path(manifests.__file__).parent / RENDERED).write_text(rendered())

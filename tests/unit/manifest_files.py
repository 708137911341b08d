"""The files in manifests/ as documents, put together as kustomize does but without it."""

from pathlib import Path
from typing import Any

import jsonpatch
import yaml

REPOSITORY = Path(__file__).parents[2]
MANIFESTS = REPOSITORY / "manifests"
SERVER = MANIFESTS / "base" / "server"
REGISTRATIONS = MANIFESTS / "base" / "registrations"

Document = dict[str, Any]


def documents(path: Path) -> list[Document]:
    """Every document of a YAML file."""
    return [found for found in yaml.safe_load_all(path.read_text()) if found is not None]


def kustomization(folder: Path) -> Document:
    (found,) = documents(folder / "kustomization.yaml")
    return found


def server_objects() -> dict[str, Document]:
    """The objects of base/server, by kind; there is one of each."""
    found = [
        document
        for name in kustomization(SERVER)["resources"]
        if name != "watch.yaml"  # roles of their own
        for document in documents(SERVER / name)
    ]
    by_kind = {document["kind"]: document for document in found}
    assert len(by_kind) == len(found)
    return by_kind


def registrations() -> dict[str, Document]:
    """intent, mutate and outcome, with the rules that the patches give them."""
    resources = kustomization(REGISTRATIONS)["resources"]
    found = {Path(name).stem: documents(REGISTRATIONS / name)[0] for name in resources}
    (watched,), (deletions,) = (
        documents(REGISTRATIONS / name) for name in ("watched.yaml", "deletions.yaml")
    )
    patched = {name: jsonpatch.apply_patch(document, watched) for name, document in found.items()}
    patched["outcome"] = jsonpatch.apply_patch(patched["outcome"], deletions)
    return patched


def webhook_of(registration: Document) -> Document:
    """The webhook of a registration whose rules the file has; the server writes those of others."""
    found: Document = registration["webhooks"][0]
    return found


def pod_spec() -> Document:
    return server_objects()["Deployment"]["spec"]["template"]["spec"]


def container() -> Document:
    (found,) = pod_spec()["containers"]
    return found

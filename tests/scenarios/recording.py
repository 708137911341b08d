"""Recordings in the repository: trimmed to what matters, compressed, the same bytes each time."""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "recordings"
DEFINITIONS = Path(__file__).with_name("definitions.yaml")
_NOISE = ("managedFields", "selfLink")
_OWN_ANNOTATION = "kubectl.kubernetes.io/last-applied-configuration"


def reviews_of(name: str) -> Path:
    return FOLDER / f"{name}.ndjson.gz"


def webhooks_of(name: str) -> Path:
    return FOLDER / f"{name}.webhooks.json"


def static_of(name: str) -> Path:
    """The manifests of static webhooks; few scenarios have some."""
    return FOLDER / f"{name}.static.json"


def read_lines(name: str) -> list[bytes]:
    """Each review of a recording, as `genguard serve --record` writes it."""
    return gzip.decompress(reviews_of(name).read_bytes()).splitlines()


def write(name: str, raw: bytes, configurations: list[dict[str, Any]]) -> int:
    """Keeps a run; the size of its reviews in bytes."""
    FOLDER.mkdir(exist_ok=True)
    lines = "".join(f"{line}\n" for line in _trimmed(raw))
    content = gzip.compress(lines.encode(), compresslevel=9, mtime=0)
    reviews_of(name).write_bytes(content)
    listed = {"apiVersion": "v1", "kind": "List", "items": list(map(_registration, configurations))}
    webhooks_of(name).write_text(json.dumps(listed, indent=1) + "\n")
    return len(content)


def write_static(name: str, manifests: list[dict[str, Any]]) -> None:
    """Keeps the manifests of the static webhooks of a run."""
    listed = {"apiVersion": "v1", "kind": "List", "items": list(map(_registration, manifests))}
    static_of(name).write_text(json.dumps(listed, indent=1) + "\n")


def _trimmed(raw: bytes) -> Iterator[str]:
    for line in raw.splitlines():
        one = json.loads(line)
        request = one["review"]["request"]
        # Probes by which the test saw that a registration is in force.
        if request["resource"]["resource"] == "configmaps" and request.get("dryRun"):
            continue
        request["userInfo"] = {"username": request["userInfo"]["username"]}
        for side in ("object", "oldObject"):
            metadata = (request.get(side) or {}).get("metadata") or {}
            for key in _NOISE:
                metadata.pop(key, None)
            metadata.get("annotations", {}).pop(_OWN_ANNOTATION, None)
        yield json.dumps(one, separators=(",", ":"))


def _registration(found: dict[str, Any]) -> dict[str, Any]:
    kept = {
        "apiVersion": found["apiVersion"],
        "kind": found["kind"],
        "metadata": {
            key: found["metadata"][key]
            for key in ("name", "creationTimestamp")
            if key in found["metadata"]
        },
    }
    if "webhooks" not in found:
        return {**kept, "spec": found["spec"]}
    hooks = []
    for hook in found["webhooks"]:
        client = {"url": hook["clientConfig"]["url"]}
        hooks.append({**hook, "clientConfig": client})
    return {**kept, "webhooks": hooks}

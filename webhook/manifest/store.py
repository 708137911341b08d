"""The store that replicas share, where an installation names it: flag, files, Secret, way out."""

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

from webhook.manifest.deployed import arguments_of, containers_of
from webhook.manifest.network import way_out

STORE_SECRET: Final = "genguard-store"  # noqa: S105 - its name
MOUNT: Final = PurePosixPath("/etc/genguard/store")
"""Where the pods have the Secret's keys as files."""
PASSWORD: Final = "password"  # noqa: S105 - the name of a key
"""The key of the Secret that the Valkey of manifests/valkey reads."""
KEY: Final = "key"
"""The key of the Secret by which replicas seal what they share: the store never sees it."""
_FLAG: Final = "--store="
_SHARED: Final = ("valkey", "valkeys", "redis", "rediss")
_VOLUME: Final = "store"


@dataclass(frozen=True, slots=True)
class SharedStore:
    """What --store takes in a pod, and the host and port in it."""

    address: str
    host: str
    port: int


def store_of(deployment: Mapping[str, Any]) -> str:
    """The address that the pods are given; "" where they share none."""
    found = [one.removeprefix(_FLAG) for one in arguments_of(deployment) if one.startswith(_FLAG)]
    return found[0] if found and urlsplit(found[0]).scheme in _SHARED else ""


def keys_of(deployment: Mapping[str, Any]) -> tuple[str, ...]:
    """Which keys of the Secret the address names as files."""
    named = parse_qsl(urlsplit(store_of(deployment)).query)
    files = (PurePosixPath(value) for _, value in named)
    return tuple(one.name for one in files if one.parent == MOUNT)


def store_secret(namespace: str, values: Mapping[str, bytes]) -> dict[str, Any]:
    """The Secret of an own Valkey: its PASSWORD, and the KEY of the replicas."""
    labels = {"app.kubernetes.io/name": "genguard", "app.kubernetes.io/component": "server"}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": STORE_SECRET, "namespace": namespace, "labels": labels},
        "type": "Opaque",
        "data": {name: base64.b64encode(value).decode() for name, value in values.items()},
    }


def use(document: dict[str, Any], store: SharedStore) -> None:
    """Put this address where the documents of overlays/ha have theirs."""
    if document["kind"] == "Deployment":
        _address(document, store)
    elif document["kind"] == "NetworkPolicy":
        # The component adds its rule last.
        document["spec"]["egress"][-1] = way_out(store.host, store.port)


def _address(deployment: dict[str, Any], store: SharedStore) -> None:
    pod = deployment["spec"]["template"]["spec"]
    for container in containers_of(deployment):
        container["args"] = [
            f"{_FLAG}{store.address}" if one.startswith(_FLAG) else one for one in container["args"]
        ]
    if not keys_of(deployment):
        pod["volumes"] = [one for one in pod["volumes"] if one["name"] != _VOLUME]
        for container in containers_of(deployment):
            mounts = container["volumeMounts"]
            container["volumeMounts"] = [one for one in mounts if one["name"] != _VOLUME]

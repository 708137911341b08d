"""Give the server the manifests of static webhooks: a ConfigMap, its volume and the flag."""

import hashlib
from collections.abc import Mapping
from typing import Any, Final

from webhook.manifest.documents import STATIC_WEBHOOKS, Document, arguments_of, containers_of

CONFIGMAP: Final = "genguard-static-webhooks"
NONE: Final = "none"
_MOUNT: Final = "/etc/genguard/static-webhooks"
_VOLUME: Final = "static-webhooks"
_HASH: Final = "genguard.io/static-webhooks"
"""An annotation of the pods: the server reads the files when it starts, so other files must make
other pods."""


def configmap_of(namespace: str, files: Mapping[str, str]) -> Document:
    """Return the ConfigMap that holds the manifests by file name."""
    labels = {"app.kubernetes.io/name": "genguard", "app.kubernetes.io/component": "server"}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": CONFIGMAP, "namespace": namespace, "labels": labels},
        "data": dict(files),
    }


def give_files(document: dict[str, Any], files: Mapping[str, str] | None) -> None:
    """Add the flag to a Deployment, with the ConfigMap where there are files.

    Without files the flag says that there are none; None adds nothing.
    """
    if files is None or document["kind"] != "Deployment":
        return
    for container in containers_of(document):
        value = _MOUNT if files else NONE
        container["args"] = [*container["args"], f"{STATIC_WEBHOOKS}={value}"]
        if files:
            mount = {"name": _VOLUME, "mountPath": _MOUNT, "readOnly": True}
            container["volumeMounts"] = [*container["volumeMounts"], mount]
    if files:
        template = document["spec"]["template"]
        volume = {"name": _VOLUME, "configMap": {"name": CONFIGMAP}}
        template["spec"]["volumes"] = [*template["spec"]["volumes"], volume]
        template["metadata"].setdefault("annotations", {})[_HASH] = _digest(files)


def _digest(files: Mapping[str, str]) -> str:
    """Return what other files make different. The Helm chart computes it in the same way."""
    contents = {name: hashlib.sha256(text.encode()).hexdigest() for name, text in files.items()}
    lines = "".join(f"{name} {content}\n" for name, content in sorted(contents.items()))
    return hashlib.sha256(lines.encode()).hexdigest()[:16]


def given_of(deployment: Mapping[str, Any]) -> str:
    """What the flag of `install` was: "none", "DIR" for files, "" where it was not given."""
    flag = f"{STATIC_WEBHOOKS}="
    given = [one.removeprefix(flag) for one in arguments_of(deployment) if one.startswith(flag)]
    if not given:
        return ""
    return NONE if given == [NONE] else "DIR"

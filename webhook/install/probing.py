"""The object that is sent as a probe, and who has seen it."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

from webhook.admission.probe import PROBE
from webhook.install.registering import RUN
from webhook.manifest.kustomize import Document

_CONTAINER: Final[Mapping[str, Any]] = {
    "name": "probe",
    "image": "registry.k8s.io/pause:3.10",  # never pulled: it is a dry run
    "resources": {
        "requests": {"cpu": "1m", "memory": "1Mi"},
        "limits": {"cpu": "1m", "memory": "1Mi"},
    },
    "securityContext": {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    },
}


def probe(value: str, namespace: str, run: str = "") -> Document:
    """A PodTemplate, on which nothing acts; its pod is one that most policies let pass."""
    return {
        "apiVersion": "v1",
        "kind": "PodTemplate",
        "metadata": {
            "name": f"genguard-probe-{value}",
            "namespace": namespace,
            "annotations": {PROBE: value},
            "labels": {"app.kubernetes.io/name": "genguard-probe"} | ({RUN: run} if run else {}),
        },
        "template": {
            "metadata": {"labels": {"app.kubernetes.io/name": "genguard-probe"}},
            "spec": {
                "automountServiceAccountToken": False,
                "securityContext": {
                    "runAsNonRoot": True,
                    "runAsUser": 65532,
                    "seccompProfile": {"type": "RuntimeDefault"},
                },
                "containers": [_CONTAINER],
            },
        },
    }


def missing(seen: Collection[str], expected: Iterable[str]) -> list[str]:
    """The phases that have not seen a probe."""
    return [phase for phase in expected if phase not in seen]

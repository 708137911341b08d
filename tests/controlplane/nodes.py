"""The Node objects that kwok brings to life, and when such a node may be used."""

from collections.abc import Mapping
from typing import Any

from tests.controlplane.build import pinned


def node(index: int) -> dict[str, Any]:
    """What a kubelet registers; the stage node-ready adds the conditions."""
    name = f"node-{index}"
    room = {"cpu": "64", "memory": "256Gi", "ephemeral-storage": "1Ti", "pods": "1000"}
    version = f"v{pinned('k8s.io/kubernetes')}"
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {
                "kubernetes.io/arch": "amd64",
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux",
            },
        },
        "status": {
            "capacity": room,
            "allocatable": room,
            "addresses": [
                {"type": "InternalIP", "address": f"192.0.2.{index + 1}"},
                {"type": "Hostname", "address": name},
            ],
            "nodeInfo": {
                "architecture": "amd64",
                "bootID": "",
                "containerRuntimeVersion": "containerd://2.2.0",
                "kernelVersion": "6.12.0",
                "kubeProxyVersion": "",
                "kubeletVersion": version,
                "machineID": name,
                "operatingSystem": "linux",
                "osImage": "kwok",
                "systemUUID": name,
            },
        },
    }


def is_usable(found: Mapping[str, Any]) -> bool:
    """Ready and without the taints that a new node starts with."""
    conditions = {c["type"]: c["status"] for c in found["status"].get("conditions", ())}
    return conditions.get("Ready") == "True" and not found["spec"].get("taints")

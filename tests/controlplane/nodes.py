"""The Node objects that kwok brings to life, and when such a node may be used."""

from collections.abc import Mapping
from pathlib import Path
from string import Template
from typing import Any

import yaml

from tests.controlplane.build import pinned


def node(index: int) -> dict[str, Any]:
    """What a kubelet registers; the stage node-ready adds the conditions."""
    values = {"name": f"node-{index}", "address": f"192.0.2.{index + 1}"}
    values |= {"version": f"v{pinned('k8s.io/kubernetes')}"}
    text = Path(__file__).with_name("node.yaml").read_text()
    found: dict[str, Any] = yaml.safe_load(Template(text).substitute(values))
    return found


def is_usable(found: Mapping[str, Any]) -> bool:
    """Ready and without the taints that a new node starts with."""
    conditions = {c["type"]: c["status"] for c in found["status"].get("conditions", ())}
    return conditions.get("Ready") == "True" and not found["spec"].get("taints")

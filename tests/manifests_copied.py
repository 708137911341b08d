"""Copies of manifests/ that tests complete as people do."""

import json
import shutil
from pathlib import Path
from typing import Any

import yaml

from tests.controlplane.plane import ControlPlane
from tests.e2e.genguard import ROOT


def copied(folder: Path) -> Path:
    """The copy in this folder."""
    manifests = folder / "manifests"
    shutil.copytree(ROOT / "manifests", manifests)
    return manifests


def with_component(plane: ControlPlane, folder: Path, component: str) -> list[dict[str, Any]]:
    """The documents of the server with a component; leaves an overlay in the folder."""
    copied(folder)
    overlay = {"resources": ["manifests/base/server"], "components": [f"manifests/{component}"]}
    (folder / "kustomization.yaml").write_text(json.dumps(overlay))
    return list(yaml.safe_load_all(plane.kubectl("kustomize", str(folder)).stdout))

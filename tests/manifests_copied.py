"""Copies of manifests/ that tests complete as people do."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

from tests.controlplane.granting import SYSTEM
from tests.controlplane.plane import ControlPlane
from tests.e2e.genguard import ROOT


def copied(folder: Path) -> Path:
    """The copy in this folder, without the pair that somebody may have put there."""
    manifests = folder / "manifests"
    shutil.copytree(ROOT / "manifests", manifests, ignore=shutil.ignore_patterns("*.crt", "*.key"))
    return manifests


def with_certificate(folder: Path) -> Path:
    """The copy, with a certificate made as the README says."""
    manifests = copied(folder)
    issue = ["issue", f"--dir={manifests}/tls", "--service=genguard", f"--namespace={SYSTEM}"]
    subprocess.run(
        [sys.executable, "-m", "certs", *issue],
        cwd=ROOT,
        check=True,
        timeout=60,
        capture_output=True,
    )
    return manifests


def with_component(plane: ControlPlane, folder: Path, component: str) -> list[dict[str, Any]]:
    """The documents of the server with a component; leaves an overlay in the folder."""
    copied(folder)
    overlay = {"resources": ["manifests/base/server"], "components": [f"manifests/{component}"]}
    (folder / "kustomization.yaml").write_text(json.dumps(overlay))
    return list(yaml.safe_load_all(plane.kubectl("kustomize", str(folder)).stdout))

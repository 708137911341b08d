"""What `kubectl auth can-i --list` says of genguard's service account, overlay by overlay.

What every service account may, which differs from release to release, is left out.
"""

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import yaml

from tests.controlplane.granting import SYSTEM
from tests.controlplane.plane import ControlPlane
from tests.manifests_copied import copied

GRANTED = Path(__file__).parent / "granted"
"""What each overlay grants: `python -m tests.rights` writes it again."""
GENGUARD = f"system:serviceaccount:{SYSTEM}:genguard"
ANYBODY = f"system:serviceaccount:{SYSTEM}:anybody"
COMPONENTS = {"with-follow": "follow", "with-ops-auth": "ops-auth"}
"""Overlays as people write them, by manifests/README.md: audit-only and a component."""
OVERLAYS = ("audit-only", "cert-manager", "enforce", "ha", *COMPONENTS)
_COLUMNS = ("Resources", "Non-Resource URLs", "Resource Names", "Verbs")


def completed(folder: Path) -> Path:
    """A copy of the manifests with overlays as people add them."""
    manifests = copied(folder)
    for name, component in COMPONENTS.items():
        written = {
            "apiVersion": "kustomize.config.k8s.io/v1beta1",
            "kind": "Kustomization",
            "resources": ["../audit-only"],
            "components": [f"../../{component}"],
        }
        (manifests / "overlays" / name).mkdir()
        (manifests / "overlays" / name / "kustomization.yaml").write_text(json.dumps(written))
    return manifests


def rendered(plane: ControlPlane, manifests: Path, overlay: str) -> list[dict[str, Any]]:
    """The documents of an overlay."""
    text = plane.kubectl("kustomize", str(manifests / "overlays" / overlay)).stdout
    return list(yaml.safe_load_all(text))


def listing(plane: ControlPlane) -> str:
    """A line for each right: verbs, what, and in brackets the names it is limited to."""
    text = ""
    for where, namespace in (("its own namespace", SYSTEM), ("any other", "default")):
        own, everybodys = (_rights(plane, user, namespace) for user in (GENGUARD, ANYBODY))
        text += f"# in {where}\n" + "".join(f"{line}\n" for line in sorted(own - everybodys))
    return text


def may(plane: ControlPlane, namespace: str, verb: str, what: str, name: str = "") -> bool:
    """Whether genguard may; `what` is resource, resource.group or resource.group/subresource."""
    resource, _, subresource = what.partition("/")
    resource, _, group = resource.partition(".")
    asked = {
        "user": GENGUARD,
        "groups": ["system:serviceaccounts", "system:authenticated"],
        "resourceAttributes": {
            "namespace": namespace,
            "verb": verb,
            "group": group,
            "resource": resource,
            "subresource": subresource,
            "name": name,
        },
    }
    path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
    allowed: bool = plane.client.post(path, {"spec": asked}).body["status"]["allowed"]
    return allowed


def _rights(plane: ControlPlane, user: str, namespace: str) -> set[str]:
    asked = plane.kubectl("auth", "can-i", "--list", f"--as={user}", f"--namespace={namespace}")
    header, *lines = asked.stdout.splitlines()
    starts = [*map(header.index, _COLUMNS), None]  # each cell ends where the next one starts
    found = set()
    for line in lines:
        resource, url, names, verbs = (line[a:b].strip() for a, b in pairwise(starts))
        limited = f" {names}" if names != "[]" else ""
        verbs = " ".join(sorted(verbs.strip("[]").split()))  # the API server's order changes
        found.add(f"[{verbs}] {resource or url}{limited}")
    return found

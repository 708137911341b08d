"""Rights that are there for as long as somebody needs them."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import yaml

from tests.controlplane.plane import ControlPlane

SYSTEM = "genguard-system"
_KINDS = {"ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"}


@contextmanager
def granted(plane: ControlPlane, documents: Iterable[dict[str, Any]]) -> Iterator[None]:
    """Of the documents those that make an account or grant something, until it is left.

    The namespace stays: without a controller it would never be finalized, and nobody could put
    anything into it any more.
    """
    plane.client.post("/api/v1/namespaces", {"metadata": {"name": SYSTEM}}, check=False)
    wanted = yaml.safe_dump_all([one for one in documents if one["kind"] in _KINDS])
    plane.kubectl("apply", "-f", "-", stdin=wanted)
    try:
        yield
    finally:
        plane.kubectl("delete", "-f", "-", stdin=wanted)

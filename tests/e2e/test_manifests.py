"""What users apply is accepted by a real API server, and says nothing about a warning."""

from collections.abc import Iterator

import pytest
import yaml

from tests.controlplane.granting import SYSTEM
from tests.controlplane.plane import ControlPlane
from tests.unit.manifest_files import MANIFESTS


@pytest.fixture(scope="module")
def system(cluster: ControlPlane) -> Iterator[None]:
    """The namespace alone, for a dry run puts nothing into a namespace that is not there."""
    cluster.kubectl("apply", "-f", str(MANIFESTS / "base" / "server" / "namespace.yaml"))
    yield
    cluster.kubectl("delete", "--wait=false", "namespace", SYSTEM)


@pytest.mark.usefixtures("system")
@pytest.mark.parametrize("overlay", ["enforce", "audit-only", "ha"])
def test_an_overlay_is_accepted_without_a_warning(cluster: ControlPlane, overlay: str) -> None:
    folder = str(MANIFESTS / "overlays" / overlay)
    applied = cluster.kubectl("apply", "--dry-run=server", "-k", folder)
    assert applied.stderr == ""
    lines = applied.stdout.splitlines()
    rendered = list(yaml.safe_load_all(cluster.kubectl("kustomize", folder).stdout))
    assert len(lines) == len(rendered)
    assert all(line.endswith("(server dry run)") for line in lines)
    for kind in ("mutatingwebhookconfiguration", "validatingwebhookconfiguration", "deployment"):
        assert any(line.startswith(f"{kind}.") for line in lines)

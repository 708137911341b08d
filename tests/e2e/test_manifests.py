"""What users apply is accepted by a real API server, and says nothing about a warning."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.controlplane.granting import SYSTEM
from tests.controlplane.plane import ControlPlane
from tests.manifests_copied import with_certificate


@pytest.fixture(scope="module")
def manifests(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return with_certificate(tmp_path_factory.mktemp("repository"))


@pytest.fixture(scope="module")
def system(cluster: ControlPlane, manifests: Path) -> Iterator[None]:
    """The namespace alone, for a dry run puts nothing into a namespace that is not there."""
    cluster.kubectl("apply", "-f", str(manifests / "base" / "server" / "namespace.yaml"))
    yield
    cluster.kubectl("delete", "--wait=false", "namespace", SYSTEM)


@pytest.mark.usefixtures("system")
@pytest.mark.parametrize("overlay", ["enforce", "audit-only", "ha"])
def test_an_overlay_is_accepted_without_a_warning(
    cluster: ControlPlane, manifests: Path, overlay: str
) -> None:
    folder = str(manifests / "overlays" / overlay)
    applied = cluster.kubectl("apply", "--dry-run=server", "-k", folder)
    assert applied.stderr == ""
    lines = applied.stdout.splitlines()
    rendered = list(yaml.safe_load_all(cluster.kubectl("kustomize", folder).stdout))
    assert len(lines) == len(rendered)
    assert all(line.endswith("(server dry run)") for line in lines)
    for kind in ("mutatingwebhookconfiguration", "validatingwebhookconfiguration", "deployment"):
        assert any(line.startswith(f"{kind}.") for line in lines)

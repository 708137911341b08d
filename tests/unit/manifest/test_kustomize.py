"""The part of kustomize that is our own makes what kustomize makes, and refuses the rest."""

import re
import subprocess
from datetime import UTC, datetime
from typing import Any

import pytest
import yaml

import manifests
from certs import ensure, installed_names
from certs.files import CA_FILE, CERT_FILE, KEY_FILE
from tests.controlplane.build import binary
from tests.unit.manifest_files import MANIFESTS
from webhook.manifest.kustomize import UnreadableManifestError, build

OVERLAYS = sorted(f"overlays/{path.name}" for path in (MANIFESTS / "overlays").iterdir())
FOLDERS = [*OVERLAYS, "base/server", "base/registrations"]


@pytest.fixture(scope="module")
def copied(tmp_path_factory):
    """manifests/ with a certificate in it."""
    folder = tmp_path_factory.mktemp("manifests")
    for path in MANIFESTS.rglob("*.yaml"):
        target = folder / path.relative_to(MANIFESTS)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(path.read_bytes())
    names = installed_names("genguard", "genguard-system")
    ensure(folder / "tls", names=names, at=datetime.now(UTC))
    return folder


def without_line_ends(value: Any) -> Any:
    """kustomize breaks base64 into lines, which mean nothing."""
    if isinstance(value, dict):
        base64 = {CA_FILE, CERT_FILE, KEY_FILE, "caBundle"}
        return {
            key: "".join(one.split()) if key in base64 else without_line_ends(one)
            for key, one in value.items()
        }
    return [without_line_ends(one) for one in value] if isinstance(value, list) else value


@pytest.mark.slow
@pytest.mark.parametrize("folder", FOLDERS)
def test_it_renders_the_very_documents_of_kustomize_in_its_order(copied, folder):
    command = [binary("kubectl"), "kustomize", copied / folder]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    expected = list(yaml.safe_load_all(done.stdout))
    found = build(folder, lambda path: (copied / path).read_bytes())
    assert without_line_ends(found) == without_line_ends(expected)


def test_the_files_are_the_ones_that_are_shipped():
    for path in MANIFESTS.rglob("*.yaml"):
        name = str(path.relative_to(MANIFESTS))
        assert manifests.read(name) == path.read_bytes()


@pytest.mark.parametrize(
    ("files", "told"),
    [
        ({"a": {"namePrefix": "x-"}}, "namePrefix is not supported"),
        (
            {"a": {"patches": [{"target": {"group": "apps"}, "patch": "[]"}]}},
            "group is not supported",
        ),
        (
            {"a": {"patches": [{"target": {"kind": "X"}, "patch": "kind: Y"}]}},
            "must be a list of operations",
        ),
        (
            {"a": {"secretGenerator": [{"name": "s", "namespace": "n", "type": "t", "files": []}]}},
            "with a hash suffix",
        ),
    ],
)
def test_what_it_does_not_know_is_an_error_and_not_passed_over(files, told):
    def read(path: str) -> bytes:
        folder, _, name = path.partition("/")
        if name == "kustomization.yaml":
            return yaml.safe_dump(files[folder]).encode()
        return b"kind: One\nmetadata: {name: one}\n"

    with pytest.raises(UnreadableManifestError, match=re.escape(told)):
        build("a", read)

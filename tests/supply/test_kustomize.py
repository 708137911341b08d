"""What is rendered for `genguard install` is what kustomize makes; the unknown is refused."""

import re
import subprocess

import pytest
import yaml

import manifests
from tests.controlplane.build import binary
from tests.unit.manifest_files import MANIFESTS
from tools.kustomize import UnreadableManifestError, build, rendered

OVERLAYS = sorted(f"overlays/{path.name}" for path in (MANIFESTS / "overlays").iterdir())
FOLDERS = [*OVERLAYS, "base/server", "base/registrations"]


@pytest.mark.slow
@pytest.mark.parametrize("folder", FOLDERS)
def test_it_renders_the_very_documents_of_kustomize_in_its_order(folder):
    command = [binary("kubectl"), "kustomize", MANIFESTS / folder]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    expected = list(yaml.safe_load_all(done.stdout))
    assert build(folder, manifests.read) == expected


def test_the_committed_combinations_are_what_make_chart_writes():
    assert manifests.read("rendered.json").decode() == rendered()


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

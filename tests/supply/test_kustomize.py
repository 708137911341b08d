"""What is rendered for `genguard install` is what kustomize makes."""

import manifests
from tests.unit.manifest_files import MANIFESTS
from tools.kustomize import rendered


def test_the_committed_combinations_are_what_make_chart_writes():
    assert manifests.read("rendered.json").decode() == rendered()


def test_the_files_are_the_ones_that_are_shipped():
    for path in MANIFESTS.rglob("*.yaml"):
        name = str(path.relative_to(MANIFESTS))
        assert manifests.read(name) == path.read_bytes()

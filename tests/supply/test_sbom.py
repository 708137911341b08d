"""The SBOM: valid CycloneDX, complete, and of the lock alone."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from tools import sbom
from tools.locked import locked
from tools.wheel import ROOT


@pytest.fixture(scope="module")
def text() -> str:
    return sbom.text()


def test_it_keeps_the_schema(text: str) -> None:
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    broken = text.replace('"bomFormat": "CycloneDX"', '"bomFormat": "another"')
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(broken) is not None


def test_it_lists_every_locked_package_with_its_hashes(text: str) -> None:
    components = {component["purl"]: component for component in json.loads(text)["components"]}
    entries = locked()
    assert len(components) == len(entries)
    for entry in entries:
        hashes = components[f"pkg:pypi/{entry.name}@{entry.version}"]["hashes"]
        assert {one["content"] for one in hashes} == set(entry.hashes)
        assert {one["alg"] for one in hashes} == {"SHA-256"}


def test_everything_in_it_is_reached_from_genguard(text: str) -> None:
    document = json.loads(text)
    wanted = {one["ref"]: one.get("dependsOn", []) for one in document["dependencies"]}
    reached, waiting = set(), [document["metadata"]["component"]["bom-ref"]]
    while waiting:
        name = waiting.pop()
        if name not in reached:
            reached.add(name)
            waiting += wanted[name]
    assert reached == set(wanted)


def test_made_again_it_is_the_same_bytes(text: str, tmp_path: Path) -> None:
    to = tmp_path / "genguard.cdx.json"
    subprocess.run([sys.executable, "-m", "tools.sbom", to], cwd=ROOT, check=True)
    assert to.read_text() == text

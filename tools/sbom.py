"""What genguard is made of, as CycloneDX: `python -m tools.sbom [FILE]`.

Out of the lock file alone, so that it lists what is installed and nothing that lies around here;
the same lock makes the same bytes. A component's hashes are those of every file that the lock
allows for it, one for each platform.
"""

import sys
import tomllib
import uuid
from datetime import UTC, datetime
from pathlib import Path

from cyclonedx.model import HashAlgorithm, HashType
from cyclonedx.model.bom import Bom, BomMetaData
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.model.license import LicenseExpression
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL

from tools.locked import Locked, locked
from tools.wheel import ROOT, committed


def bom() -> Bom:
    """genguard, what it depends on, and what that depends on."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    itself = Component(
        type=ComponentType.APPLICATION,
        name=project["name"],
        version=project["version"],
        description=project["description"],
        licenses=[LicenseExpression(project["license"])],
        purl=PackageURL("pypi", None, project["name"], project["version"]),
        bom_ref=project["name"],
    )
    entries = locked()
    components = {entry.name: _component(entry) for entry in entries}
    made = Bom(
        # Of the contents, not of chance: another lock is another document.
        serial_number=uuid.uuid5(uuid.NAMESPACE_OID, repr((project["version"], entries))),
        metadata=BomMetaData(component=itself, timestamp=datetime.fromtimestamp(committed(), UTC)),
        components=components.values(),
    )
    known = {project["name"]: itself, **components}
    for name, component in known.items():
        wanted = [components[entry.name] for entry in entries if name in entry.wanted_by]
        made.register_dependency(component, wanted)
    return made


def _component(entry: Locked) -> Component:
    return Component(
        type=ComponentType.LIBRARY,
        name=entry.name,
        version=entry.version,
        purl=PackageURL("pypi", None, entry.name, entry.version),
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=content) for content in entry.hashes],
        bom_ref=entry.name,
    )


def text() -> str:
    """The document, CycloneDX 1.6 in JSON."""
    return JsonV1Dot6(bom()).output_as_string(indent=1) + "\n"


def main() -> None:
    """Writes it and prints where."""
    to = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "dist" / "genguard.cdx.json"
    to.parent.mkdir(parents=True, exist_ok=True)
    to.write_text(text())
    print(to)


if __name__ == "__main__":
    main()

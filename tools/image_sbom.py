"""What an image of genguard is made of, as CycloneDX: `python -m tools.image_sbom IMAGE`.

What the lock file says of Python's packages, and what the image itself says of Debian's and of
Python. Docker runs the image to read these; nothing is written in it.
"""

import json
import subprocess
import sys
import uuid
from email.parser import HeaderParser
from typing import Any

from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL

from tools.sbom import bom
from tools.wheel import ROOT

_INSTALLED = "install ok installed"


def text(image: str) -> str:
    """The document of an image that Docker has, or can pull; CycloneDX 1.6 in JSON."""
    release = _fields(_read(image, "cat", "/etc/os-release"))
    found = [
        *debian(_read(image, "cat", "/var/lib/dpkg/status"), release["VERSION_ID"]),
        _python(_read(image, "python", "-c", "import platform; print(platform.python_version())")),
    ]
    inspected: list[dict[str, Any]] = json.loads(_docker("inspect", image))
    made = bom()
    made.serial_number = uuid.uuid5(uuid.NAMESPACE_OID, inspected[0]["Id"])
    itself = Component(
        type=ComponentType.CONTAINER, name="genguard", version=inspected[0]["Id"], bom_ref="image"
    )
    genguard = made.metadata.component
    assert genguard is not None
    made.metadata.component = itself
    made.components.update([genguard, *found])
    made.register_dependency(itself, [genguard, *found])
    return JsonV1Dot6(made).output_as_string(indent=1) + "\n"


def debian(status: str, release: str) -> list[Component]:
    """A component for each package that a dpkg status file calls installed."""
    components = []
    for entry in filter(None, status.split("\n\n")):
        package = HeaderParser().parsestr(entry.lstrip("\n"))
        if package["Status"] != _INSTALLED:
            continue
        name, version, machine = (package[key] for key in ("Package", "Version", "Architecture"))
        qualifiers = {"arch": machine, "distro": f"debian-{release}"}
        purl = PackageURL("deb", "debian", name, version, qualifiers)
        components.append(
            Component(
                type=ComponentType.LIBRARY,
                name=name,
                version=version,
                purl=purl,
                bom_ref=purl.to_string(),
            )
        )
    return components


def _python(told: str) -> Component:
    purl = PackageURL("generic", None, "python", told.strip())
    return Component(
        type=ComponentType.APPLICATION,
        name="python",
        version=told.strip(),
        purl=purl,
        bom_ref="python",
    )


def _fields(text: str) -> dict[str, str]:
    pairs = (line.partition("=") for line in text.splitlines())
    return {name: value.strip('"') for name, _, value in pairs}


def _read(image: str, program: str, *arguments: str) -> str:
    return _docker("run", "--rm", "--network=none", f"--entrypoint={program}", image, *arguments)


def _docker(*words: str) -> str:
    done = subprocess.run(["docker", *words], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"docker {words[0]}: {done.stderr.strip()}")
    return done.stdout


def main() -> None:
    """Writes it and prints where."""
    to = ROOT / "dist" / "genguard-image.cdx.json"
    to.parent.mkdir(parents=True, exist_ok=True)
    to.write_text(text(sys.argv[1]))
    print(to)


if __name__ == "__main__":
    main()

"""What a lock file pins: names, versions, hashes, and who asks for each."""

import re
from dataclasses import dataclass
from pathlib import Path

from tools.wheel import ROOT

LOCK = ROOT / "requirements.lock"
"""Of what is shipped."""
_ENTRY = re.compile(r"^(?=[a-z0-9])", re.MULTILINE)
_ASKER = re.compile(r"^    #(?: via|  ) (\S+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Locked:
    """One pinned package.

    hashes     SHA-256, hexadecimal, of all files of the version; an installation takes one of them
    wanted_by  the packages that depend on it, genguard itself among them
    """

    name: str
    version: str
    hashes: tuple[str, ...]
    wanted_by: tuple[str, ...]


def locked(path: Path = LOCK) -> list[Locked]:
    """Every package of a lock file as pip-compile writes it, by name."""
    found = []
    for entry in _ENTRY.split(path.read_text())[1:]:
        name, _, version = entry.split(None, 1)[0].partition("==")
        hashes = re.findall(r"--hash=sha256:([0-9a-f]{64})", entry)
        found.append(Locked(name, version, tuple(hashes), tuple(_ASKER.findall(entry))))
    return found

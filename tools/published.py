"""What a release fills in: its version, and the repository on GitHub that publishes it.

pyproject.toml says both. COPIES are all other places that name them; `fill_in` writes all of them.
"""

import re
import tomllib
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path

import yaml

from tools.wheel import ROOT

NOBODY = "OWNER/genguard"
"""The repository while nothing is published: a page that says OWNER also says what that is."""
_VERSION = re.compile(r"\d+\.\d+\.\d+")
_REPOSITORY = re.compile(r"[\w.-]+/[\w.-]+")
COPIES = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text())
"""The texts in each file; the first in which one contains another comes first."""
_COMING = "## [Unreleased]\n"


class FillError(Exception):
    """A value cannot be filled in; the message says which, and where."""


@dataclass(frozen=True, slots=True)
class Published:
    """A version, as 0.2.0, and a repository, as owner/name."""

    version: str
    repository: str

    @property
    def is_known(self) -> bool:
        """Whether somebody publishes it."""
        return self.repository != NOBODY

    @property
    def address(self) -> str:
        """The repository's page."""
        return f"https://github.com/{self.repository}"

    @property
    def registry(self) -> str:
        """The image without a tag, and the folder of the chart; a registry has no capitals."""
        return f"ghcr.io/{self.repository.lower() if self.is_known else self.repository}"

    @property
    def image(self) -> str:
        """The image that is installed: while nobody publishes it, one that was built here."""
        name = self.registry if self.is_known else "genguard"
        return f"{name}:{self.version}"

    def texts(self, path: str) -> list[str]:
        """What a file of COPIES says."""
        values = {**asdict(self), "address": self.address}
        values |= {"registry": self.registry, "image": self.image}
        return [text.format_map(values) for text in COPIES[path]]


def current(root: Path = ROOT) -> Published:
    """What pyproject.toml says."""
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    address = project["urls"]["Repository"]
    return Published(project["version"], address.removeprefix("https://github.com/"))


def fill_in(wanted: Published, root: Path = ROOT) -> list[str]:
    """Write the values into every file of COPIES that has others. Returns the changed files.

    Raises FillError, before anything is written, for a value of a wrong form, or a file that does
    not say what it should.
    """
    if not _VERSION.fullmatch(wanted.version):
        raise FillError(f"VERSION is {wanted.version!r}: give three numbers, as 0.2.0")
    if not _REPOSITORY.fullmatch(wanted.repository):
        raise FillError(f"REPOSITORY is {wanted.repository!r}: give owner/name, as on GitHub")
    before = current(root)
    changed = {}
    for path in COPIES:
        text = said = (root / path).read_text()
        for old, new in zip(before.texts(path), wanted.texts(path), strict=True):
            if old not in text:
                raise FillError(f"{path} does not say {old!r}")
            text = text.replace(old, new)
        if text != said:
            changed[path] = text
    for path, text in changed.items():
        (root / path).write_text(text)
    return list(changed)


def dated(changelog: str, version: str, day: date) -> str:
    """The changelog, in which what was unreleased is this version."""
    head = re.compile(rf"^## \[{re.escape(version)}\](.*)$", re.MULTILINE)
    found = head.search(changelog)
    if found is None:
        return changelog.replace(_COMING, f"{_COMING}\n## [{version}] - {day}\n", 1)
    if re.fullmatch(r" - \d{4}-\d\d-\d\d", found[1]):
        return changelog
    return head.sub(f"## [{version}] - {day}", changelog, count=1)


def notes(changelog: str, now: Published) -> str:
    """What the changelog says of a version; raises FillError where that is nothing.

    Its links lead to the repository, as it is at the tag: the notes are read elsewhere.
    """
    _, found, rest = changelog.partition(f"\n## [{now.version}]")
    text = re.split(r"^## \[", rest.partition("\n")[2], maxsplit=1, flags=re.MULTILINE)[0]
    if not found or not text.strip():
        raise FillError(f"CHANGELOG.md says nothing of {now.version}")
    files = f"{now.address}/blob/v{now.version}/"
    return re.sub(r"\]\((?!https?:|#)", f"]({files}", text.strip()) + "\n"

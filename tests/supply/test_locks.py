"""What is installed is what is locked, and none of it has a hole that is known here."""

import re
import tomllib

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from tools.locked import LOCK, locked
from tools.wheel import ROOT

DEVELOPERS = ROOT / "requirements-dev.lock"
DOCUMENTS = ROOT / "requirements-docs.lock"
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT = PYPROJECT["project"]
WANTED = [Requirement(text) for text in PROJECT["dependencies"]]
EXTRAS = [
    Requirement(text) for group in PROJECT["optional-dependencies"].values() for text in group
]
SITE = [Requirement(text) for text in PYPROJECT["dependency-groups"]["docs"]]
BUILT_WITH = [Requirement(text) for text in PYPROJECT["build-system"]["requires"]]
ADVISORIES = yaml.safe_load((ROOT / "tests/supply/advisories.yaml").read_text())


@pytest.mark.parametrize(
    ("lock", "wanted"),
    [(LOCK, WANTED), (DEVELOPERS, [*WANTED, *EXTRAS, *BUILT_WITH]), (DOCUMENTS, SITE)],
)
def test_a_lock_pins_all_that_pyproject_asks_for(lock, wanted) -> None:
    pinned = {entry.name: entry.version for entry in locked(lock)}
    for one in wanted:
        assert one.specifier.contains(pinned[canonicalize_name(one.name)]), one


@pytest.mark.parametrize("lock", [LOCK, DEVELOPERS, DOCUMENTS])
def test_every_pin_has_hashes_and_somebody_who_asks_for_it(lock) -> None:
    entries = locked(lock)
    assert len(entries) > 20
    assert [entry.name for entry in entries if not entry.hashes or not entry.wanted_by] == []


def test_what_is_shipped_is_what_is_tested() -> None:
    tested = {entry.name: (entry.version, entry.hashes) for entry in locked(DEVELOPERS)}
    for entry in locked():
        assert tested[entry.name] == (entry.version, entry.hashes)


def test_locks_say_nothing_of_where_they_were_made() -> None:
    for lock in (LOCK, DEVELOPERS, DOCUMENTS):
        assert re.findall(r"https?://|--(?:extra-)?index-url|--find-links", lock.read_text()) == []


@pytest.mark.parametrize("advisory", ADVISORIES, ids=lambda advisory: advisory["id"])
def test_a_known_hole_is_not_locked_in_and_not_let_in(advisory) -> None:
    name, fixed = advisory["package"], Version(str(advisory["fixed"]))
    pinned = [
        entry
        for lock in (LOCK, DEVELOPERS, DOCUMENTS)
        for entry in locked(lock)
        if entry.name == name
    ]
    assert pinned, "nothing depends on it any more: take the line away"
    assert all(Version(entry.version) >= fixed for entry in pinned)
    for wanted in [*WANTED, *EXTRAS, *BUILT_WITH]:
        if canonicalize_name(wanted.name) == name:
            lowest = min(Version(one.version) for one in wanted.specifier if one.operator == ">=")
            assert lowest >= fixed, f"pyproject.toml lets {name} {lowest} in"

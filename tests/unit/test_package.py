"""The two distributions say of themselves what is so."""

import tomllib

import pytest

import genguard
import webhook
from tests.unit.manifest_files import REPOSITORY

SERVER, LIBRARY = (
    tomllib.loads((REPOSITORY / path).read_text())["project"]
    for path in ("pyproject.toml", "genguard/pyproject.toml")
)


@pytest.mark.parametrize(("package", "project"), [(webhook, SERVER), (genguard, LIBRARY)])
def test_a_package_says_the_version_that_it_is_published_as(package, project):
    assert package.__version__ == project["version"]


def test_both_distributions_have_one_version_since_both_hold_the_core():
    assert SERVER["version"] == LIBRARY["version"]


def test_what_the_library_needs_the_server_needs_as_well():
    assert set(LIBRARY["dependencies"]) <= set(SERVER["dependencies"])

"""The package says of itself what is so."""

import tomllib

import webhook
from tests.unit.manifest_files import REPOSITORY


def test_the_package_says_the_version_that_it_is_published_as():
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    assert webhook.__version__ == project["version"]

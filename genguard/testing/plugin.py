"""The pytest plugin: the fixture `fake_api_server`, in every environment that has genguard."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from genguard import testing

if TYPE_CHECKING:
    from genguard.testing.fake import FakeApiServer

_OPTION = "genguard_crds"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the setting `genguard_crds`."""
    parser.addini(
        _OPTION,
        "CustomResourceDefinitions that the fixture fake_api_server serves: YAML or JSON files",
        type="paths",
        default=[],
    )


@pytest.fixture
def fake_api_server(request: pytest.FixtureRequest) -> "Iterator[FakeApiServer]":
    """A Kubernetes API server in memory, of this test alone, that counts generation.

    It serves built-in kinds and the custom resources of the setting `genguard_crds`;
    `fake_api_server.define()` adds others.
    """
    with testing.FakeApiServer(*request.config.getini(_OPTION)) as server:
        yield server

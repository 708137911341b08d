"""What a running server exports."""

import re
from collections.abc import Iterator

import pytest

from tests.e2e.genguard import Genguard


def exported_by(guard: Genguard) -> set[str]:
    """Every metric's name as an expression has it, also of those without a sample yet."""
    return set(re.findall(r"^# TYPE (\S+)", guard.ops("/metrics")[1], re.MULTILINE))


@pytest.fixture(scope="session")
def exported() -> Iterator[set[str]]:
    """Of a server without a cluster, and the one metric that needs one: see test_alerting."""
    with Genguard() as guard:
        yield exported_by(guard) | {"genguard_cluster_known"}

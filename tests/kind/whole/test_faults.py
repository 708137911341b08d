"""Users make 40 writes a second while pods, nodes and the API server go and come back."""

from collections.abc import Callable

import pytest

from tests.kind import faults
from tests.kind.cluster import Cluster, Figure
from tests.kind.culprit import Culprit
from tests.kind.load import assert_nothing_lost


@pytest.mark.parametrize("fault", faults.ALL, ids=lambda fault: fault.__name__)
def test_under_load_no_write_fails_and_nothing_is_left_unrepaired(
    cluster: Cluster, culprit: Culprit, figure: Figure, fault: Callable[[Cluster], None]
) -> None:
    cluster.ensure(audit_only=False)
    assert_nothing_lost(cluster, culprit, figure, fault)

"""Fixtures for every folder of tests; Hypothesis takes the same examples at every run.

With GENGUARD_EXPLORE=1 it takes new ones, and many of them.
"""

import os
import signal

import pytest
from hypothesis import HealthCheck, settings

pytest_plugins = ["tests.controlplane.fixtures"]

# How long an example takes is the machine's business.
settings.register_profile(
    "proved",
    derandomize=True,
    deadline=None,
    max_examples=200,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.register_profile(
    "explore",
    settings.get_profile("proved"),
    derandomize=False,
    max_examples=5_000,
    print_blob=True,
)
settings.load_profile("explore" if os.environ.get("GENGUARD_EXPLORE") else "proved")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # As it is in the background of a shell; the processes that tests interrupt would inherit it.
    signal.signal(signal.SIGINT, signal.default_int_handler)

_LONG = 1_200.0


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes many minutes begins first, or one core works on it alone in the end.

    First of all that is in no group with others: xdist hands out the larger groups before.
    """
    items.sort(key=_is_long, reverse=True)


def _is_long(item: pytest.Item) -> bool:
    marker = item.get_closest_marker("timeout")
    return marker is not None and marker.args[0] >= _LONG

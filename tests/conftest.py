"""Settings and fixtures for every folder of tests.

Hypothesis tries the same examples in every run. With GENGUARD_EXPLORE=1 it tries many new ones,
with --hypothesis-profile=quick a few.
"""

import os
import signal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.nightly import waits

pytest_plugins = ["tests.controlplane.fixtures"]

# No deadline: how long an example takes depends on the machine.
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
settings.register_profile("quick", settings.get_profile("proved"), max_examples=20)
settings.load_profile("explore" if os.environ.get("GENGUARD_EXPLORE") else "proved")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell ignores it for commands in the background. Processes that tests interrupt would, too.
    signal.signal(signal.SIGINT, signal.default_int_handler)

_FOLDER = Path(__file__).parent
_LONG_SECONDS = 1_200.0
_LONGEST_ID = 60


def pytest_make_parametrize_id(val: object) -> str | None:
    """Name a long value by its length.

    pytest puts the name of a test into an environment variable, which each process that the test
    starts inherits, and xdist sends all names from each worker. Some values have megabytes.
    """
    if isinstance(val, str | bytes) and len(val) > _LONGEST_ID:
        return f"{type(val).__name__} of {len(val)}"
    return None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what waits for the night, and begin with the longest tests.

    At the end one worker would run these alone. They are in no group, and xdist hands out the
    large groups first.
    """
    for item in items:
        if item.path.is_relative_to(_FOLDER) and waits(item.path.relative_to(_FOLDER).as_posix()):
            item.add_marker(pytest.mark.nightly)
    items.sort(key=_is_long, reverse=True)


def _is_long(item: pytest.Item) -> bool:
    marker = item.get_closest_marker("timeout")
    return marker is not None and marker.args[0] >= _LONG_SECONDS

"""Settings and fixtures for every folder of tests.

Hypothesis tries the same examples in every run: half of them with --hypothesis-profile=day, a few
with quick. With GENGUARD_EXPLORE=1 it tries many new ones.
"""

import os
import signal
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling

from tests.cases_loader import read_beside
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
settings.register_profile("day", settings.get_profile("proved"), max_examples=100)
settings.register_profile("quick", settings.get_profile("proved"), max_examples=20)
settings.load_profile("explore" if os.environ.get("GENGUARD_EXPLORE") else "proved")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell ignores it for commands in the background. Processes that tests interrupt would, too.
    signal.signal(signal.SIGINT, signal.default_int_handler)

_FOLDER = Path(__file__).parent
_LONG_SECONDS = 1_200.0
_WITHOUT_SERVERS = [
    _FOLDER / name for name in ("unit", "architecture", "property", "scenarios", "malformed")
]
_ONE_AT_A_TIME = {
    why: tuple(names) for why, names in read_beside(__file__, "one_at_a_time.yaml").items()
}
"""What files begin with that one worker takes, and why."""
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
    """Mark what waits for the night, and put files in an order in which no worker is left alone.

    Files with long tests, or of which one worker takes several, come first; then those of servers;
    those without come last, of which the largest come first.
    """
    for item in items:
        if item.path.is_relative_to(_FOLDER) and waits(item.path.relative_to(_FOLDER).as_posix()):
            item.add_marker(pytest.mark.nightly)
    sizes = Counter(item.path for item in items)
    long = {item.path for item in items if _is_long(item) or _turns(item.nodeid) is not None}
    quick = {path for path in sizes if any(path.is_relative_to(one) for one in _WITHOUT_SERVERS)}
    quick -= {item.path for item in items if "cluster" in getattr(item, "fixturenames", ())}
    items.sort(
        key=lambda one: (one.path not in long, one.path in quick, -sizes[one.path], one.path)
    )


def _is_long(item: pytest.Item) -> bool:
    marker = item.get_closest_marker("timeout")
    return marker is not None and marker.args[0] >= _LONG_SECONDS


def _turns(file: str) -> str | None:
    """Why no two tests of the file, and of others, may run at once; None if they may."""
    return next((why for why, names in _ONE_AT_A_TIME.items() if file.startswith(names)), None)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadFileScheduling:
    """Hand out whole files: a worker starts once what a file's tests share."""
    return _ByFile(config, log)


class _ByFile(LoadFileScheduling):
    """Hands out a file at a time, or all of _ONE_AT_A_TIME."""

    def _split_scope(self, nodeid: str) -> str:
        return _turns(nodeid) or str(super()._split_scope(nodeid))

"""Descriptors are shared out so that neither port can take those of the other."""

import resource
import subprocess
import sys

import pytest

from webhook.server.options import FEWEST_CONNECTIONS, OTHER_DESCRIPTORS, Limits, fit

LIMITS = Limits()
OPS = LIMITS.ops_connections + LIMITS.ops_spare


@pytest.mark.parametrize(
    "descriptors", [resource.RLIM_INFINITY, 1_048_576, LIMITS.connections + OPS + OTHER_DESCRIPTORS]
)
def test_enough_descriptors_leave_the_limits_as_they_are(descriptors, caplog):
    assert fit(LIMITS, descriptors) == LIMITS
    assert not caplog.records


@pytest.mark.parametrize("descriptors", [24, 64, 128, 200, 287, 288, 500, 1_024, 1_295])
def test_with_few_descriptors_both_ports_together_leave_some_for_files_and_it_is_told(
    descriptors, caplog
):
    fitted = fit(LIMITS, descriptors)
    ports = fitted.connections + fitted.ops_connections + fitted.ops_spare
    assert fitted.connections >= FEWEST_CONNECTIONS
    assert fitted.ops_connections > fitted.ops_spare > 0
    assert descriptors < 64 or ports <= descriptors - min(OTHER_DESCRIPTORS, descriptors // 2)
    (told,) = caplog.records
    assert told.fields == {"connections": fitted.connections, "action": "raise ulimit -n"}


@pytest.mark.parametrize("limits", [(64, 512), (512, 512)])
def test_the_soft_limit_is_raised_to_the_hard_one(limits):
    code = (
        "import resource; from webhook.server.options import raise_limit; "
        "print(raise_limit(), *resource.getrlimit(resource.RLIMIT_NOFILE))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, limits),
        capture_output=True,
        check=True,
        text=True,
    )
    assert done.stdout == "512 512 512\n"

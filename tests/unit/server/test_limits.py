"""Descriptors are shared out so that neither port can take those of the other."""

import resource
import subprocess
import sys

import pytest

from webhook.server.options import FEWEST_CONNECTIONS, OTHER_DESCRIPTORS, Limits, fit

LIMITS = Limits()
OPS = LIMITS.ops_connections + LIMITS.ops_spare


@pytest.mark.parametrize(
    ("descriptors", "connections"),
    [
        (resource.RLIM_INFINITY, LIMITS.connections),
        (1_048_576, LIMITS.connections),
        (LIMITS.connections + OPS + OTHER_DESCRIPTORS, LIMITS.connections),
        (LIMITS.connections + OPS + OTHER_DESCRIPTORS - 1, LIMITS.connections - 1),
        (1_024, 1_024 - OPS - OTHER_DESCRIPTORS),
        (64, FEWEST_CONNECTIONS),
    ],
)
def test_the_admission_port_gets_what_the_ops_port_and_files_leave(descriptors, connections):
    assert fit(LIMITS, descriptors).connections == connections


def test_fewer_connections_than_usual_are_told(caplog):
    fit(LIMITS, 1_048_576)
    assert not caplog.records
    fit(LIMITS, 1_024)
    (told,) = caplog.records
    assert told.facts == {
        "connections": 1_024 - OPS - OTHER_DESCRIPTORS,
        "action": "raise ulimit -n",
    }


@pytest.mark.parametrize("descriptors", [24, 64, 128, 200, 287, 288, 500])
def test_with_few_descriptors_both_ports_together_leave_some_for_files(descriptors):
    fitted = fit(LIMITS, descriptors)
    ports = fitted.connections + fitted.ops_connections + fitted.ops_spare
    assert fitted.connections >= FEWEST_CONNECTIONS
    assert fitted.ops_connections > fitted.ops_spare > 0
    assert descriptors < 64 or ports <= descriptors - min(OTHER_DESCRIPTORS, descriptors // 2)


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

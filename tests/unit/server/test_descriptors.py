"""Descriptors are shared out so that neither port can take those of the other."""

import resource
import subprocess
import sys

import pytest

from webhook.server.descriptors import FEWEST, OWN, fit
from webhook.server.limits import Limits

LIMITS = Limits()
OPS = LIMITS.ops_connections + LIMITS.ops_spare


@pytest.mark.parametrize(
    ("descriptors", "connections"),
    [
        (resource.RLIM_INFINITY, LIMITS.connections),
        (1_048_576, LIMITS.connections),
        (LIMITS.connections + OPS + OWN, LIMITS.connections),
        (LIMITS.connections + OPS + OWN - 1, LIMITS.connections - 1),
        (1_024, 1_024 - OPS - OWN),
        (64, FEWEST),
    ],
)
def test_the_admission_port_gets_what_the_ops_port_and_files_leave(descriptors, connections):
    assert fit(LIMITS, descriptors).connections == connections


def test_fewer_connections_than_usual_are_told(caplog):
    fit(LIMITS, 1_048_576)
    assert not caplog.records
    fit(LIMITS, 1_024)
    (told,) = caplog.records
    assert told.facts == {"connections": 1_024 - OPS - OWN, "mend": "raise ulimit -n"}


@pytest.mark.parametrize("limits", [(64, 512), (512, 512)])
def test_the_soft_limit_is_raised_to_the_hard_one(limits):
    code = (
        "import resource; from webhook.server.descriptors import raise_limit; "
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

"""python -m tests.scenarios.record [NAME...]: plays scenarios live and keeps the recordings.

The reviews and the audit log of one run: what is found in one must be found in the other.
"""

import sys
import time
from dataclasses import replace

from tests.controlplane.options import FULL_CLUSTER
from tests.controlplane.plane import ControlPlane
from tests.scenarios import recording
from tests.scenarios.catalogue import Scenario, catalogue
from tests.scenarios.stage import define, make_namespace, play

_ONE_LOG = ("--audit-log-maxsize=10000",)
"""MiB. The API server begins another file at 100, and a trail is read in one."""


def main(names: list[str]) -> None:
    """Those named, or all."""
    known = catalogue()
    unknown = [name for name in names if name not in known]
    if unknown:
        raise SystemExit(f"no such scenario: {', '.join(unknown)}; there are: {', '.join(known)}")
    logged = replace(FULL_CLUSTER, audit_level="RequestResponse", apiserver_flags=_ONE_LOG)
    with ControlPlane(logged) as plane:
        define(plane)
        for name in names or known:
            make_namespace(plane, name)
            _record(plane, known[name])


def _record(plane: ControlPlane, scenario: Scenario) -> None:
    start, name = time.monotonic(), scenario.name
    played = play(plane, scenario, name)
    size, of_log = recording.write(name, *played)
    took = time.monotonic() - start
    print(f"{name:44} {took:5.1f} s {size:7} and {of_log:7} bytes", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])

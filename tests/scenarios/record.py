"""python -m tests.scenarios.record [NAME...]: plays scenarios live and keeps the recordings."""

import sys
import time

from tests.controlplane.options import FULL_CLUSTER
from tests.controlplane.plane import ControlPlane
from tests.scenarios import recording
from tests.scenarios.catalogue import Scenario, catalogue
from tests.scenarios.stage import defined, make_namespace, own_plane, play


def main(names: list[str]) -> None:
    """Those named, or all."""
    known = catalogue()
    unknown = [name for name in names if name not in known]
    if unknown:
        raise SystemExit(f"no such scenario: {', '.join(unknown)}; there are: {', '.join(known)}")
    alone = [name for name in names or known if known[name].statics]
    for name in alone:
        with own_plane(known[name].statics, name) as own:
            _record(own.plane, known[name])
            recording.write_static(name, own.manifests)
    together = [name for name in names or known if name not in alone]
    if not together:
        return
    with ControlPlane(FULL_CLUSTER) as plane, defined(plane):
        for name in together:
            make_namespace(plane, name)
            _record(plane, known[name])


def _record(plane: ControlPlane, scenario: Scenario) -> None:
    start, name = time.monotonic(), scenario.name
    played = play(plane, scenario, name)
    size = recording.write(name, played.reviews, played.configurations)
    print(f"{name:44} {time.monotonic() - start:5.1f} s {size:7} bytes", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])

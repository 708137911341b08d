"""`python -m tools.bench.audit_replay`: how fast an audit log is read on one core, in MB/s.

The log is made on the way and never in memory: updates and patches of many objects at
RequestResponse, reads at Metadata, leases, and one webhook that clears observedGeneration.
"""

import argparse
import itertools
import json
import resource
import time
from collections.abc import Iterator
from typing import Any

from genguard.replay import Replay
from genguard.review_setup import ReviewOptions
from tests.unit.audit.samples import deployment, event

CLEARS = {"patch": [{"op": "remove", "path": "/status/observedGeneration"}]}
_OBJECTS = 2_000
_BATCH = 500
_CONTAINER = {
    "name": "c", "image": "registry.example.org/team/app:1",
    "env": [{"name": f"VARIABLE_{number}", "value": "x" * 40} for number in range(12)],
    "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}},
}  # fmt: skip


def log(count: int, containers: int = 2) -> Iterator[bytes]:
    """`count` lines; the templates are encoded once, and numbers are put in."""
    templates = [
        _template(kind, containers) for kind in ("status", "status", "spec", "get", "get", "lease")
    ]
    for number, template in zip(range(count), itertools.cycle(templates)):
        minutes, seconds = divmod(number // 200, 60)
        stamp = b"%02d:%02d.%06d" % (minutes % 60, seconds, number % 1_000_000)
        name = b"%06d" % (number // len(templates) % _OBJECTS)
        version = b"%d" % (1_000_000_000 + number)
        yield (
            template.replace(b"NNNNNN", name)
            .replace(b"00:00.000000", stamp)
            .replace(b"4444444444", version)
        )


def measure(count: int, containers: int = 2) -> dict[str, Any]:
    """Read as many lines; making them is not in the time."""
    run = Replay(ReviewOptions())
    lines = log(count, containers)
    size, spent = 0, 0.0
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    while batch := list(itertools.islice(lines, _BATCH)):
        size += sum(map(len, batch))
        began = time.process_time()
        for _ in run.lines(batch, "log"):
            raise AssertionError("an audit event prints nothing by itself")
        spent += time.process_time() - began
    findings = list(run.findings())
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    return {
        "events": run.summary()["events"],
        "MB": round(size / 1e6, 1),
        "seconds": round(spent, 2),
        "MB/s": round(size / 1e6 / spent, 1),
        "findings": len(findings),
        "grownMiB": round(grown / 1024, 1),
    }


def _template(kind: str, containers: int) -> bytes:
    status = {
        "observedGeneration": 3, "replicas": 3, "readyReplicas": 3, "counted": 4_444_444_444,
        "conditions": [
            {"type": f"Type{n}", "status": "True", "reason": "Reason", "message": "m" * 60}
            for n in range(4)
        ],
    }  # fmt: skip
    spec = {"replicas": 3, "template": {"spec": {"containers": [_CONTAINER] * containers}}}
    stored = deployment(3, spec=spec, status=status)
    stored["metadata"] |= {"uid": "u-NNNNNN", "name": "web-NNNNNN", "resourceVersion": "4444444444"}
    made = {"name": "web-NNNNNN", "level": "RequestResponse", "sent": stored, "stored": stored}
    if kind == "status":
        found = event(CLEARS, **made)
    elif kind == "spec":
        found = event(**made, subresource="")
    elif kind == "lease":
        found = event(**made, subresource="", resource="leases")
    else:
        found = event(verb="get", level="Metadata", name="web-NNNNNN", subresource="")
    return json.dumps(found, separators=(",", ":")).encode() + b"\n"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=60_000)
    parser.add_argument("--containers", type=int, default=2)
    given = parser.parse_args()
    print(json.dumps(measure(given.events, given.containers)))

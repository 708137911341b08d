"""A server in a flood of findings and objects: `make flood`, minutes.

A webhook clears the status of 10,000 objects again and again, and 200,000 objects are created.
Printed after each: the most memory that the process had, how long each page of the ops port took,
and in how many requests of how many alerts Alertmanager was told.
"""

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.contract.hoard import Request
from tests.contract.victim import Victim, victim
from tests.reviews import make_review
from tests.store.alertmanager import Alertmanager
from tools.bench.hoarding import pod_bytes

_MIB: Final = 1024 * 1024
_WRITES: Final = 3
"""Of each object: the same again and again on one object is a loop."""
_CONNECTIONS: Final = 4
_PAGES: Final = (
    "/", "/objects", "/terminating", "/api/findings", "/api/objects", "/metrics",
)  # fmt: skip


def main(arguments: list[str] | None = None) -> int:
    """Flood, print; 1 where the memory of the pod was not enough."""
    parser = argparse.ArgumentParser(prog="python -m tools.bench.flood", description=__doc__)
    parser.add_argument("--findings", type=int, default=10_000)
    parser.add_argument("--objects", type=int, default=200_000)
    flags = parser.parse_args(arguments)
    most = asyncio.run(_flood(flags.findings, flags.objects))
    print(f"{most / _MIB:.0f} MiB at most, of the pod's {pod_bytes() // _MIB}")
    return int(most >= pod_bytes())


async def _flood(findings: int, objects: int) -> int:
    with tempfile.TemporaryDirectory() as folder, Alertmanager() as alertmanager:
        flag = f"--alertmanager={alertmanager.url}"
        async with victim(Path(folder), flag, most_bytes=pod_bytes()) as run:
            await _send(run, [_cleared(number) for number in range(findings)])
            await _report(run, f"{findings:,} objects are cleared")
            sizes = alertmanager.sizes
            print(f"  Alertmanager: {len(sizes)} requests, {max(sizes, default=0)} alerts at most")
            await _send(run, [_created(number) for number in range(objects)])
            await _report(run, f"{objects:,} objects are created")
            return run.most_bytes


async def _send(run: Victim, each: list[Iterator[Request]]) -> None:
    """Send over some connections; of a part the server has no time to judge, which is counted."""
    parts = (each[index::_CONNECTIONS] for index in range(_CONNECTIONS))
    requests = ((one for requests in part for one in requests) for part in parts)
    await asyncio.gather(*(run.statuses(some) for some in requests))


async def _report(run: Victim, title: str) -> None:
    found = json.loads(await run.ops("/api/findings"))["findings"]
    tracked = json.loads(await run.ops("/api/objects?limit=1"))["total"]
    print(f"{title}: {len(found):,} findings, {tracked:,} objects", flush=True)
    for page in _PAGES:
        began = time.perf_counter()
        size = len(await run.ops(page))
        print(f"  {page:16}{time.perf_counter() - began:8.2f} s{size / 1024:10,.0f} KiB")
    waited = [run.waited_by(share) * 1e3 for share in (0.5, 0.99)]
    print("  honest reviews waited {:.1f} ms, 99 of 100 at most {:.1f} ms".format(*waited))
    print(f"  {run.most_bytes / _MIB:.0f} MiB", flush=True)


def _cleared(number: int) -> Iterator[Request]:
    for generation in range(2, 2 + _WRITES):
        stored = {"metadata": {"generation": generation}, "status": {"observedGeneration": 1}}
        sent = {**stored, "status": {"observedGeneration": generation}}
        lost = {**stored, "status": {}}
        yield from (
            _review(path, number, new, stored)
            for path, new in (("/intent", sent), ("/mutate", lost), ("/outcome", lost))
        )


def _review(path: str, number: int, new: dict[str, object], old: dict[str, object]) -> Request:
    asked = make_review(new=new, old=old, name=f"cleared-{number}", subresource="status")
    for one in (asked["request"]["object"], asked["request"]["oldObject"]):
        one["metadata"] |= {"name": f"cleared-{number}", "uid": f"uid-{number}"}
        one["metadata"]["resourceVersion"] = str(one["metadata"]["generation"])
    return path, json.dumps(asked).encode()


def _created(number: int) -> Iterator[Request]:
    asked = make_review("CREATE", new={"spec": {"replicas": 1}}, name=f"created-{number}")
    asked["request"]["object"]["metadata"] |= {
        "name": f"created-{number}", "uid": f"created-{number}", "generation": 1,
    }  # fmt: skip
    yield "/outcome", json.dumps(asked).encode()


if __name__ == "__main__":
    sys.exit(main())

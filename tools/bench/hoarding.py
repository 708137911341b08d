"""What a server takes under attacks on its memory and its time: `make memory-attack`, minutes.

Each attack of tests/contract/hoard.py alone against a fresh `genguard serve`, then all at once;
each of tests/contract/costly.py by several clients. Printed are how many reviews were answered and
how many rejected, the most memory that the process had (VmHWM), and how long honest reviews waited
beside them: half of them, and 99 of 100. The clients share the machine.
"""

import argparse
import asyncio
import itertools
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Final

from tests.contract.costly import COSTLY, NEARLY_LARGE
from tests.contract.hoard import ATTACKS, Request
from tests.contract.service import http_post
from tests.contract.victim import Victim, victim
from tests.unit.manifest_files import container

_MIB: Final = 1024 * 1024
_OK: Final = 200
_REJECTED: Final = 429
_CLIENTS: Final = 4
_SLOW_BODIES: Final = 64


def main(arguments: Sequence[str] | None = None) -> int:
    """Attack, print; 1 where the memory of the pod was not enough."""
    parser = argparse.ArgumentParser(prog="python -m tools.bench.hoarding", description=__doc__)
    parser.add_argument("--seconds", type=float, default=20.0, help="of each attack alone")
    parser.add_argument("--all", type=float, default=120.0, help="seconds of all at once")
    parser.add_argument("--only", default="", help="attacks with this in their name")
    flags = parser.parse_args(arguments)
    print(
        f"{'attack':28}{'answered':>9}{'rejected':>9}{'MiB':>7}{'p50 ms':>9}{'p99 ms':>9}"
        "   remembered"
    )
    attacks = [(name, (name,), flags.seconds) for name in ATTACKS]
    attacks += [(name, (name,) * _CLIENTS, flags.seconds) for name in COSTLY | NEARLY_LARGE]
    attacks += [
        ("all at once", tuple(ATTACKS), flags.all),
        ("all costly", tuple(COSTLY), flags.all),
    ]
    most = 0
    for title, names, seconds in attacks:
        if flags.only in title:
            most = max(most, asyncio.run(_attack(title, names, seconds)))
    print(f"{most / _MIB:.0f} MiB at most, of the pod's {pod_bytes() // _MIB}")
    return int(most >= pod_bytes())


def pod_bytes() -> int:
    """The memory limit of the pod in the manifests."""
    return int(container()["resources"]["limits"]["memory"].removesuffix("Mi")) * _MIB


async def _attack(title: str, names: Collection[str], seconds: float) -> int:
    """Send every one of `names` over a connection of its own; return the most memory in bytes."""
    with tempfile.TemporaryDirectory() as folder:
        async with victim(Path(folder), most_bytes=pod_bytes()) as run:
            end = time.monotonic() + seconds
            slow = _hold_bodies(run, end) if names == tuple(ATTACKS) else asyncio.sleep(0)
            sending = (run.statuses(_until(end, name)) for name in names)
            sent = sum((await asyncio.gather(slow, *sending))[1:], Counter[int]())
            objects = await run.metric("genguard_objects")
            findings = len(json.loads(await run.ops("/api/findings"))["findings"])
            print(
                f"{title:28}{sent[_OK]:9,}{sent[_REJECTED]:9,}{run.most_bytes / _MIB:7.0f}"
                f"{run.waited_by(0.5) * 1e3:9.1f}{run.waited_by(0.99) * 1e3:9.1f}"
                f"   {objects:g} objects, {findings} findings",
                flush=True,
            )
            return run.most_bytes


def _until(end: float, name: str) -> Iterator[Request]:
    make = (ATTACKS | COSTLY | NEARLY_LARGE)[name]
    for number in itertools.count():
        if time.monotonic() >= end:
            return
        yield from make(number)


async def _hold_bodies(run: Victim, end: float) -> None:
    """Bodies of 7 MiB, sent but for their last byte, again and again."""
    request = http_post(b" " * (7 * _MIB))[:-1]
    while time.monotonic() < end:
        wires = [await run.connect() for _ in range(_SLOW_BODIES)]
        for wire in wires:
            wire.writer.write(request)
        await asyncio.sleep(6.0)  # more than a body may take
        for wire in wires:
            wire.writer.transport.abort()


if __name__ == "__main__":
    sys.exit(main())

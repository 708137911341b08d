"""`python -m tools.bench.tracking`: memory of tracked objects, and the cost of one update.

Status writes of pods (the bench's corpus) and Deployments (a scenario's recording), as the API
server sent them; each object many times, with a uid and a name of its own. The objects that are
updated come in random order, so that their memory is as cold as in a cluster.
"""

import argparse
import gc
import random
import re
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import Final, NamedTuple, TypeVar

import msgspec

from genguard.admission.decode import decode_review
from genguard.admission.review import AdmissionRequest, ReviewedObject
from genguard.objects.fields import Fields
from genguard.status.counts import ResourceKind
from genguard.status.tracking import Tracking
from tools.bench.corpus import FILE, read_corpus
from tools.bench.machine import machine_facts
from tools.bench.running import REPOSITORY

OBJECTS: Final = 100_000
UPDATES: Final = 20_000
BYTES_WANTED: Final = 1_024
MICROSECONDS_WANTED: Final = 30
_ROLLOUTS: Final = REPOSITORY / "tests" / "scenarios" / "recordings" / "rollouts.ndjson.gz"
WRITES: Final = (
    (ResourceKind("", "pods", "Pod"), FILE),
    (ResourceKind("apps", "deployments", "Deployment"), _ROLLOUTS),
)
T = TypeVar("T")
_VERSION: Final = re.compile(rb'"resourceVersion":"\d+"')
_BATCH: Final = 250
_PAGE: Final = 4_096


class Measured(NamedTuple):
    """Bytes: what the process grew by. Microseconds of CPU time: of each batch, ascending."""

    bytes_of_object: float
    first_sight: Sequence[float]
    update: Sequence[float]


def recorded(kind: ResourceKind, path: Path) -> list[AdmissionRequest]:
    """The status writes of a kind in a recording that change something."""
    found = [decode_review(one.body) for one in read_corpus(path) if one.write == "UPDATE status"]
    return [
        one
        for one in found
        if one.wire.resource.resource == kind.resource
        and one.object
        and one.old_object
        and one.object.status != one.old_object.status
    ]


def another(reviewed: ReviewedObject, number: int, version: int) -> Fields:
    """The object under another identity."""
    metadata, uid = bytes(reviewed.fields["metadata"]), (reviewed.metadata.uid or "").encode()
    metadata = metadata.replace(uid, b"%0*x" % (len(uid), number))
    name = (reviewed.metadata.name or "").encode()
    metadata = metadata.replace(b'"name":"%s"' % name, b'"name":"%s-%05x"' % (name[:-6], number), 1)
    metadata = _VERSION.sub(b'"resourceVersion":"%d"' % version, metadata)
    return {**reviewed.fields, "metadata": msgspec.Raw(metadata)}


def measure(kind: ResourceKind, path: Path, objects: int, updates: int) -> Measured:
    """Track so many objects in the state before a write, then show some of them after it."""
    writes = recorded(kind, path)
    tracking = Tracking()

    def first(number: int) -> Fields:
        old = writes[number % len(writes)].old_object
        assert old is not None
        return another(old, number, 1)

    def written(number: int) -> Fields:
        new = writes[number % len(writes)].object
        assert new is not None
        return another(new, number, 2)

    def see(found: Fields) -> None:
        tracking.record_stored(*kind, found, 1.0)

    gc.collect()
    empty = _resident()
    first_sight = _costs(range(objects), first, see)
    gc.collect()
    resting = _resident()
    some = random.Random(1).sample(range(objects), updates)
    update = _costs(some, written, see)
    assert len(tracking) == objects
    return Measured((resting - empty) / objects, first_sight, update)


def _costs(
    numbers: Iterable[int], make: Callable[[int], T], take: Callable[[T], object]
) -> list[float]:
    """Microseconds of CPU time of one `take`; what it is given is made beforehand."""
    costs, queue = [], list(numbers)
    gc.disable()
    for at in range(0, len(queue), _BATCH):
        made = [make(number) for number in queue[at : at + _BATCH]]
        begun = time.process_time()
        for one in made:
            take(one)
        costs.append((time.process_time() - begun) / len(made) * 1e6)
    gc.enable()
    return sorted(costs)


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m tools.bench.tracking", description=__doc__)
    parser.add_argument("--objects", type=int, default=OBJECTS)
    parser.add_argument("--updates", type=int, default=UPDATES)
    flags = parser.parse_args(arguments)
    print(", ".join(f"{name} {value}" for name, value in machine_facts().items()))
    print(f"{flags.objects} tracked objects, {flags.updates} updated")
    titles = ("bytes", "first us", "update us", "least")
    print(" " * 12 + "".join(title.rjust(10) for title in titles))
    for kind, path in WRITES:
        # In a process of its own: what one kind has freed is no memory that the next one takes.
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as apart:
            found = apart.submit(measure, kind, path, flags.objects, flags.updates).result()
        times = (median(found.first_sight), median(found.update), found.update[0])
        numbers = [f"{found.bytes_of_object:10.0f}", *(f"{each:10.1f}" for each in times)]
        print(kind.resource.ljust(12) + "".join(numbers))
    print(
        f"bytes: resident memory of an object (wanted: {BYTES_WANTED}); us: CPU time of its first "
        f"version and of another (wanted: {MICROSECONDS_WANTED}),\nmedian of batches of {_BATCH}; "
        "least: the fastest batch, which other processes disturbed least"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())

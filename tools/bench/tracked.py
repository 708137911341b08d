"""Status writes of as many objects as wanted: those of a recorded one, made each object's own.

What tells objects apart in a cluster is replaced, so that nothing is smaller than there: uid,
names, nodes, addresses, times, containers and their digests, resourceVersions.
"""

import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice, product
from typing import Any, Final

from genguard.admission.review import Phase
from genguard.detection.detection import Detection
from genguard.detection.reduce import Reviewed
from genguard.review import review
from tests.scenarios import recording
from tools.bench.profile import dependencies

_SCENARIO: Final = "thirty-pods-at-once"
_APPLICATIONS: Final = 100
_NODES: Final = 1_000
_SECONDS_APART: Final = 0.01  # 300,000 writes in less than the hour for which they are kept


@dataclass(frozen=True, slots=True)
class Example:
    """The first recorded object of a resource with so many status writes, which are taken."""

    resource: str
    writes: int


PODS: Final = Example("pods", 3)
"""What a kubelet writes of a pod that starts: waiting, running, ready."""
DEPLOYMENTS: Final = Example("deployments", 2)

_OWN: Final = re.compile(
    rb"(?P<uid>(?<=\"uid\":\")[0-9a-f-]{36})"
    rb"|(?P<digest>[0-9a-f]{64})"
    rb"|(?P<minute>(?<=\"20\d\d-\d\d-\d\dT)\d\d:\d\d(?=:\d\dZ))"
    rb"|(?P<version>(?<=\"resourceVersion\":\")\d+)"
    rb"|(?P<node>(?:(?<=system:node:)|(?<=\"nodeName\":\"))(?:kwok|node-\d+))"
    rb"|(?P<host>192\.0\.2\.\d+)"
    rb"|(?P<address>10\.244\.\d+\.\d+)"
    rb"|(?P<container>(?<=\"name\":\")c(?=\")|(?<=\[)c(?=\]))"
    rb"|(?P<image>(?<=\")image(?=:1\"))"
    rb"|(?P<namespace>thirty-pods-at-once)"
    rb"|(?P<name>\bmany(-[0-9a-f]+(-[0-9a-z]{5})?)?\b)"
)


class Reviews:
    """The reviews of any number of objects that live as the example did."""

    def __init__(self, example: Example) -> None:
        written: dict[str, dict[str, list[tuple[Phase, bytes]]]] = {}
        for line in map(json.loads, recording.read_lines(_SCENARIO)):
            request = line["review"]["request"]
            if not _is_of(example, request):
                continue
            base = request["oldObject"]["metadata"]["resourceVersion"]
            body = json.dumps(line["review"], separators=(",", ":")).encode()
            one = written.setdefault(request["name"], {}).setdefault(base, [])
            one.append((Phase(line["phase"]), body))
        whole = next(
            several
            for writes in written.values()
            if len(several := [one for one in writes.values() if _is_whole(one)]) >= example.writes
        )
        self.writes: Final = example.writes
        self._of_one: Final = [
            (phase, _split(body))
            for write in islice(whole, example.writes)
            for phase, body in write
        ]

    def of(self, number: int, write: int) -> Iterator[tuple[Phase, bytes]]:
        """Those of one write of an object, in order; equal numbers give equal bytes."""
        own = _own(number)
        for phase, parts in self._of_one[write * len(Phase) : (write + 1) * len(Phase)]:
            values = [own.get(part, part) for part in parts]
            yield phase, b"".join(values)


def follow(detection: Detection, reviews: Reviews, objects: int, *, by_turns: bool = False) -> None:
    """Each object's writes at once, as they start in a cluster; or of all the first, and so on."""
    deps = dependencies()
    writes = range(reviews.writes)
    order = product(writes, range(objects)) if by_turns else product(range(objects), writes)
    for step, one in enumerate(order):
        write, number = one if by_turns else one[::-1]
        now = step * _SECONDS_APART
        for phase, body in reviews.of(number, write):
            result = review(body, phase, deps, now).result
            assert result.request is not None
            assert result.prediction is not None
            reviewed = Reviewed(result.request, result.prediction, result.status)
            observation = detection.observe(phase, reviewed, now)
            if observation is not None:
                detection.see(observation)


def _is_of(example: Example, request: dict[str, Any]) -> bool:
    return (
        request["operation"] == "UPDATE"
        and request["resource"]["resource"] == example.resource
        and request.get("subResource") == "status"
    )


def _is_whole(write: list[tuple[Phase, bytes]]) -> bool:
    return [phase for phase, _ in write] == list(Phase)


def _split(body: bytes) -> list[bytes]:
    """What stays, and in between the names of what is replaced."""
    parts, end = [], 0
    for match in _OWN.finditer(body):
        parts += [body[end : match.start()], b"<%s>" % str(match.lastgroup).encode()]
        if match.lastgroup == "version":
            parts.append(match[0])  # keeps the order of an object's versions
        end = match.end()
    return [*parts, body[end:]]


def _own(number: int) -> dict[bytes, bytes]:
    """What one object has of its own, or shares with some."""
    unique = hashlib.blake2b(b"%d" % number, digest_size=32).hexdigest().encode()
    uid = unique[:8], unique[8:12], unique[12:16], unique[16:20], unique[20:32]
    application, node = number % _APPLICATIONS, number * 7 % _NODES
    return {
        b"<uid>": b"-".join(uid),
        b"<digest>": unique,
        b"<minute>": b"%02d:%02d" % (number // 60 % 24, number % 60),
        b"<version>": b"%d" % (1_000 + number),
        b"<node>": b"node-%d" % node,
        b"<host>": b"192.0.%d.%d" % divmod(node, 250),
        b"<address>": b"10.%d.%d.%d" % (number >> 16, number >> 8 & 255, number & 255),
        b"<container>": b"container-%d" % application,
        b"<image>": b"image-%d" % application,
        b"<namespace>": b"team-%d" % (application // 10),
        b"<name>": b"application-%d-%s-%s" % (application, unique[:9], unique[9:14]),
    }

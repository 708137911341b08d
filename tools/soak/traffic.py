"""What the API server asks in a soak: recorded writes, played again for one object after another.

Each write is called in all its phases, as it was recorded, and some writes are under way at once.
An object comes round again only after so many others that it was forgotten meanwhile: what the
server remembers is always new, and always as much.
"""

import json
from collections.abc import Iterator
from itertools import count
from typing import Final, NamedTuple

from genguard.admission.decode import decode_review
from genguard.admission.review import Operation, Phase
from tests.scenarios import recording
from tools.bench.connection import Connection
from tools.bench.corpus import Recorded, read_corpus
from tools.bench.template import Filled, Template, make_template

SCENARIOS: Final = (
    "rollouts",
    "stateful-and-daemon-sets",
    "deployment-status-removed-by-one-of-three",
    "custom-status-zeroed",
    "suspended-by-a-policy-and-resumed-by-an-operator",
    "empty-ingress-put-again",
    "scaled-up-and-down",
)
"""Pods, ReplicaSets, Deployments, StatefulSets, DaemonSets, CronJobs, NetworkPolicies and custom
resources; what is quiet, and loops."""
_AT_ONCE: Final = 8


class _Call(NamedTuple):
    """One review: `write` is equal for those of one write, `uid` for those of one object."""

    write: object
    uid: str | None
    operation: Operation
    recorded: Recorded


class _Write(NamedTuple):
    """The calls of one write, and the object's uid where it has one by then."""

    uid: str | None
    calls: tuple[Template, ...]


class Traffic:
    """An endless supply of requests, for the loops of tools.bench.

    A third of the objects is written, until `widen` is called.

    round    after so many calls every object was written
    written  how many distinct ones were by now
    """

    def __init__(self, objects: int) -> None:
        """So many objects, or a few more."""
        self._writes: Final = tuple(_writes())
        known = {write.uid for write in self._writes} - {None}
        self._known: Final = len(known)
        self._times: Final = -(-objects // len(known))
        self._limit = -(-self._times // 3)
        self._begun = 0
        self.round: Final = self._times * sum(len(write.calls) for write in self._writes)
        self._requests: Final = self._all()

    @property
    def written(self) -> int:
        return min(self._begun, self._limit) * self._known

    def widen(self) -> None:
        """From now on, write every object."""
        self._limit = self._times

    def next(self, _: Connection) -> Filled:
        """A request that was never sent."""
        return next(self._requests)

    def _all(self) -> Iterator[Filled]:
        uids, version = count(1), 0
        for turn in count():
            number = turn % self._limit
            self._begun += 1
            for start in range(0, len(self._writes), _AT_ONCE):
                some = [write.calls for write in self._writes[start : start + _AT_ONCE]]
                for step in range(max(map(len, some))):
                    for at, calls in enumerate(some):
                        if step < len(calls):
                            yield calls[step].fill(next(uids), number, version + at)
                version += len(some)


def _writes() -> Iterator[_Write]:
    """All that is made, then the first update of each object, then all that is deleted."""
    for scenario in SCENARIOS:
        calls = [_call(line) for line in recording.read_lines(scenario)]
        for operation in (Operation.CREATE, Operation.UPDATE, Operation.DELETE):
            yield from _of_operation(calls, operation)
    for recorded in read_corpus():
        yield _Write(None, (make_template(recorded, f"/{Phase.MUTATE}"),))


def _of_operation(calls: list[_Call], operation: Operation) -> Iterator[_Write]:
    firsts: dict[str, object] = {}
    written: dict[object, list[_Call]] = {}
    for call in calls:
        # What an object is made from has no uid before it is stored, and cannot be told from it.
        if call.operation is operation and call.uid is not None:
            first = firsts.setdefault(call.uid, call.write)
            if first == call.write:
                written.setdefault(call.write, []).append(call)
    for some in written.values():
        templates = [make_template(one.recorded, f"/{one.recorded.phase}") for one in some]
        yield _Write(some[0].uid, tuple(templates))


def _call(line: bytes) -> _Call:
    document = json.loads(line)
    body = json.dumps(document["review"], separators=(",", ":")).encode()
    request = decode_review(body)
    reviewed = request.old_object or request.object
    uid = reviewed.metadata.uid if reviewed else None
    operation = request.wire.operation
    recorded = Recorded(document["time"], Phase(document["phase"]), body, operation, "")
    return _Call(request.join_key or uid, uid, operation, recorded)

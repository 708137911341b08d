"""What the patches of one audited update say by themselves, without any memory.

Each sign names exactly the webhooks whose patches show it. Evidence is the operations' kinds and
paths, never their values.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

import msgspec

from webhook.audit.calls import Call
from webhook.audit.event import NO_OBJECT, Event
from webhook.audit.lost import lost_status
from webhook.detection.detectors import Blame, Signal

_MOST_OPERATIONS: Final = 20
CLEARED: Final = "observed-generation-cleared"
CLOBBERED: Final = "status-clobbered"
DROPPED: Final = "terminating-replicas-dropped"
UNSTABLE: Final = "unstable-mutation"


class Told(NamedTuple):
    """A sign with the calls that it is about; not `proved` where no patch was shown."""

    detector: str
    sign: Signal
    calls: tuple[Call, ...]
    proved: bool


def signs(event: Event, calls: Sequence[Call], *, writes_status: bool) -> Iterator[Told]:
    """The signs of an update; `calls` are those of other webhooks that changed something."""
    if writes_status:
        yield from _of_status(event, calls)
    again = tuple(call for call in calls if call.round > 0)
    if again:
        paths = tuple(one.path for call in again for one in call.operations or ())
        yield _told(UNSTABLE, paths, "{} changed the object once more when reinvoked", again)


def _of_status(event: Event, calls: Sequence[Call]) -> Iterator[Told]:
    unseen = tuple(call for call in calls if call.operations is None)
    if unseen:
        # A label set in passing looks the same: never more than info.
        message = "{} changed a status write; the audit level shows no patch"
        yield _told(CLOBBERED, (), message, unseen, minor=True)
    sent = _decode(event.request_object)
    found = [(call, lost_status(call.operations or (), sent)) for call in calls]
    for detector, part, what in (
        (CLEARED, 0, "{} cleared {} observedGeneration value(s) of a status write"),
        (DROPPED, 1, "{} dropped terminatingReplicas from a status write"),
        (CLOBBERED, 2, "{} changed or removed {} status field(s) of a status write"),
    ):
        mine = [(call, lost[part]) for call, lost in found if lost[part]]
        if mine:
            paths = tuple(dict.fromkeys(path for _, lost in mine for path in lost))
            culprits = tuple(call for call, _ in mine)
            yield _told(detector, paths, what.format("{}", len(paths)), culprits)


def _told(
    detector: str,
    paths: tuple[str, ...],
    message: str,
    calls: tuple[Call, ...],
    *,
    minor: bool = False,
) -> Told:
    names = " and ".join(dict.fromkeys(call.name for call in calls))
    sign = Signal(
        Blame.OTHERS,
        tuple(dict.fromkeys(paths)),
        message.replace("{}", names, 1),
        minor=minor,
        evidence={"calls": [describe(call) for call in calls]},
    )
    return Told(detector, sign, calls, all(call.operations is not None for call in calls))


def describe(call: Call) -> dict[str, Any]:
    """A call as evidence."""
    shown = tuple((one.op, one.path) for one in (call.operations or ())[:_MOST_OPERATIONS])
    return _described(call.name, call.round, call.position, shown)


@lru_cache(maxsize=4096)
def _described(
    webhook: str, round_: int, position: int, shown: tuple[tuple[str, str], ...]
) -> dict[str, Any]:
    # A loop shows the same call many times; one dict, which nobody changes, serves all.
    operations = [{"op": op, "path": path} for op, path in shown]
    return {"webhook": webhook, "round": round_, "index": position, "operations": operations}


def _decode(raw: msgspec.Raw) -> Any:
    return None if raw == NO_OBJECT else msgspec.json.decode(raw)

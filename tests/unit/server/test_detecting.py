"""Detection behind the answers: bounded, never waited for, and told only in turns."""

import asyncio
import json

from tests.reviews import judge, make_review
from webhook.admission.review import Phase
from webhook.alerts.change import Change, Turn
from webhook.detection.detection import Detection
from webhook.detection.finding import Finding
from webhook.pipeline import Verdict, review
from webhook.server import detecting as module
from webhook.server.detecting import Detecting
from webhook.status.tracking import Tracking


class Told:
    """A sink that keeps what it is told, and fails on demand."""

    def __init__(self, *, fails: bool = False) -> None:
        self.changes: list[Change] = []
        self.fails = fails
        self.closed = False

    async def tell(self, changes: tuple[Change, ...], findings: tuple[Finding, ...]) -> None:
        self.changes += changes
        if self.fails:
            raise RuntimeError("sink is broken")

    async def close(self) -> None:
        self.closed = True


def clobbered_write(version: int) -> list[tuple[Phase, Verdict]]:
    """One status write whose observedGeneration another webhook clears, in its three phases."""
    stored = {"metadata": {"generation": 2, "resourceVersion": str(version)}, "status": {}}
    asked = {**stored, "status": {"observedGeneration": 2, "replicas": version}}
    left = {**stored, "status": {"replicas": version}}
    found = []
    for phase, new in ((Phase.INTENT, asked), (Phase.MUTATE, left), (Phase.OUTCOME, left)):
        body = json.dumps(make_review("UPDATE", "deployments", new, stored, subresource="status"))
        found.append((phase, review(body.encode(), phase, judge(), 0.0).verdict))
    return found


async def test_a_loop_is_told_once_when_it_opens_and_a_broken_sink_stops_no_other(monkeypatch):
    monkeypatch.setattr(module, "_LOOK_SECONDS", 0.02)
    broken, told = Told(fails=True), Told()
    detecting = Detecting(Detection(), [broken, told], Tracking())
    detecting.start()
    for version in range(5):
        for phase, verdict in clobbered_write(version):
            detecting.put(phase, verdict, 1_000)
    await asyncio.sleep(0.3)
    await detecting.stop()
    assert [(one.turn, one.finding.detector) for one in told.changes] == [
        (Turn.OPENED, "observed-generation-cleared")
    ]
    assert told.closed
    assert broken.closed


async def test_what_does_not_fit_is_dropped_and_counted_and_nobody_waits():
    detecting = Detecting(Detection(), [], Tracking())
    [(phase, verdict), *_] = clobbered_write(1)
    for _ in range(module.MOST_QUEUED + 7):
        detecting.put(phase, verdict, 10)
    assert len(detecting) == module.MOST_QUEUED
    assert detecting.dropped == 7
    await detecting.stop()


async def test_bytes_are_bounded_too():
    detecting = Detecting(Detection(), [], Tracking())
    [(phase, verdict), *_] = clobbered_write(1)
    detecting.put(phase, verdict, module.MOST_QUEUED_BYTES - 1)
    detecting.put(phase, verdict, 2)
    assert (len(detecting), detecting.dropped) == (1, 1)
    await detecting.stop()


async def test_only_updates_that_were_judged_are_looked_at():
    detecting = Detecting(Detection(), [], Tracking())
    created = json.dumps(make_review("CREATE", "deployments", {"spec": {}})).encode()
    detecting.put(Phase.MUTATE, review(created, Phase.MUTATE, judge(), 0.0).verdict, 10)
    detecting.put(Phase.MUTATE, Verdict(), 10)
    assert len(detecting) == 0
    await detecting.stop()

"""Which damaged objects are looked at, when, and what comes of it."""

import asyncio
import logging
from contextlib import suppress

import aiohttp
import pytest

from genguard.detection.finding_state import FindingState
from tests.cases_loader import table
from tests.unit.cluster.objects import Api, Findings, deployment, lost
from webhook.cluster import healing as module
from webhook.cluster.healing import AGAIN_SECONDS, FRESH_SECONDS, MOST_READS, Rechecking
from webhook.cluster.rest import UNREACHED, RefusedError
from webhook.cluster.stored_objects import StoredObjects
from webhook.telemetry.logs import LOGGER

WEB, DB = deployment("web"), deployment("db")


def damaged(name: str = "web", finding: str = "f1", last: float = 0.0) -> FindingState:
    return FindingState(finding, "", deployment(name), "status", last, last, damage=lost(3))


class Scene:
    """A clock, objects, findings about them and a recheck."""

    def __init__(self, *known: FindingState) -> None:
        self.now = 1_000.0
        self.api, self.findings = Api(), Findings(*known)
        for one in known:
            self.api.put(one.object)
        self.rechecking = Rechecking(self.findings, StoredObjects(self.api), clock=lambda: self.now)

    async def turn(self, seconds: float = 0.0) -> list[str]:
        """One turn after so many seconds; the names that were looked at."""
        self.now += seconds
        before = len(self.api.calls)
        with suppress(*UNREACHED):
            await self.rechecking.recheck()
        return [path.rpartition("/")[2] for _, path in self.api.calls[before:]]


@table("cluster/still_broken.yaml", "status", "broken")
async def test_a_look_tells_whether_the_stored_object_is_still_broken(case):
    scene = Scene(damaged())
    scene.api.put(WEB, **case["status"])
    await scene.turn()
    assert scene.findings.seen == [("f1", case["broken"])], case.because


@pytest.mark.parametrize(
    "trouble",
    [
        RefusedError(403, "forbidden"),
        RefusedError(429, "later"),
        aiohttp.ClientConnectionError(),
        TimeoutError(),
    ],
    ids=str,
)
async def test_what_cannot_be_looked_at_stays_as_it_is_known(trouble):
    scene = Scene(damaged())
    scene.api.trouble["GET"] = [trouble]
    await scene.turn()
    assert scene.findings.seen == []
    await scene.turn(AGAIN_SECONDS)
    assert scene.findings.seen == [("f1", True)]


async def test_what_was_restored_is_read_again_but_after_what_is_damaged():
    scene = Scene(damaged())
    scene.api.put(WEB, observedGeneration=3)
    for _ in range(2):
        assert await scene.turn(AGAIN_SECONDS) == ["web"]
    scene.findings.known["f2"] = damaged("db", "f2")
    scene.api.put(DB)
    assert await scene.turn(AGAIN_SECONDS) == ["db", "web"]
    scene.api.put(WEB, observedGeneration=0)
    await scene.turn(AGAIN_SECONDS)
    assert sorted(scene.findings.known) == ["f1", "f2"], "a write has passed unseen"


async def test_an_object_that_is_being_written_is_left_alone_for_a_moment():
    scene = Scene(damaged(last=1_000.0))
    assert await scene.turn(FRESH_SECONDS - 1) == []
    assert await scene.turn(1) == ["web"]


async def test_of_many_a_few_are_looked_at_and_the_longest_unlooked_at_come_first():
    names = [f"app{number:02}" for number in range(MOST_READS + 5)]
    scene = Scene(*(damaged(name, name) for name in names))
    assert await scene.turn() == names[:MOST_READS]
    assert await scene.turn(1) == names[MOST_READS:]
    assert (await scene.turn(AGAIN_SECONDS))[0] == names[0]


async def test_an_api_server_that_does_not_answer_is_asked_once(monkeypatch):
    monkeypatch.setattr(module, "_CALL_SECONDS", 0.01)
    scene = Scene(damaged("web", "f1"), damaged("db", "f2"))

    async def hang(path: str) -> bytes:
        scene.api.calls.append(("GET", path))
        await asyncio.Event().wait()
        return b""

    scene.api.read = hang
    assert await scene.turn() == ["web"]


async def test_an_object_that_fails_is_left_out_and_does_not_end_the_next(caplog):
    caplog.set_level(logging.WARNING, LOGGER.name)
    scene = Scene(damaged("web", "f1"), damaged("db", "f2"))
    scene.api.trouble["GET"] = [RuntimeError("a fault of genguard")]
    assert len(await scene.turn()) == 2
    assert {one.message for one in caplog.records} == {"left out"}

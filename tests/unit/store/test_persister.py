"""Findings that outlive their pod: when they are saved, and what the next one makes of them."""

import base64
import logging
from collections.abc import Iterable

import msgspec
import pytest
from msgspec.structs import replace

from genguard.detection.finding_state import QUIET_SECONDS
from genguard.detection.ledger import Ledger, Row
from genguard.detection.mutators import Mutators
from tests.unit.cluster.objects import Leads
from tests.unit.cluster.test_findings_configmap import ConfigMaps, place
from tests.unit.detection.test_ledger import SIGN, WRITE, of
from tests.waiting import until
from webhook.cluster import saved_findings
from webhook.cluster.rest import RefusedError
from webhook.cluster.saved_findings import COUNT_SECONDS, pack
from webhook.store import persister as module
from webhook.store.persister import SAVE_SECONDS, Persister
from webhook.tasks.supervisor import Supervisor
from webhook.telemetry.logs import LOGGER
from webhook.telemetry.metrics import Metrics


class Pod:
    """A ledger that is carried, and a clock."""

    def __init__(self, api: ConfigMaps, *, stands_by: bool = False) -> None:
        self.api, self.now = api, 1_000.0
        self.leads = Leads()
        self.ledger = Ledger(Mutators())
        show = self._show if stands_by else None
        self.carrying = Persister(
            self.ledger, place(api), self.leads, self._take_over, show, lambda: self.now
        )
        self.known: set[str] = set()

    def _take_over(self, rows: Iterable[Row]) -> None:
        self.known |= self.ledger.restore(rows, keeps_own=True)

    def _show(self, rows: Iterable[Row]) -> None:
        self.known |= self.ledger.restore(rows)

    def sign(self, uid: str, time: float = 0.0, times: int = 1) -> None:
        for _ in range(times):
            self.ledger.add("spec-fight", SIGN, replace(WRITE, object=of(uid), time=time))

    async def turn(self, seconds: float = SAVE_SECONDS, *, is_last: bool = False) -> bool:
        """A turn of the leader; whether it saved."""
        self.now += seconds
        before = self.api.version
        await self.carrying.tick(is_last=is_last)
        return self.api.version > before

    @property
    def counts(self) -> dict[str, int]:
        return {one.object.uid: one.count for one in self.ledger.findings()}


async def next_pod(api: ConfigMaps, *, stands_by: bool = False) -> Pod:
    pod = Pod(api, stands_by=stands_by)
    await pod.carrying.load()
    return pod


def saved(api: ConfigMaps) -> list[str]:
    return [msgspec.msgpack.decode(content)["object"][5] for _, content in api.rows]


@pytest.mark.parametrize("later", ["opened", "more severe", "resolved"])
async def test_what_is_new_is_saved_at_the_next_look(later):
    pod = await next_pod(ConfigMaps())
    pod.sign("a", times=2)
    assert await pod.turn()
    if later == "opened":
        pod.sign("b")
    elif later == "more severe":
        pod.sign("a", times=2)
    else:
        pod.ledger.resolve_quiet(QUIET_SECONDS)
    assert await pod.turn()
    assert saved(pod.api) == {"opened": ["a", "b"], "more severe": ["a"], "resolved": ["a"]}[later]


async def test_a_resolved_finding_outlives_its_pod_for_a_day_and_takes_no_room_of_others():
    pod = await next_pod(ConfigMaps())
    pod.sign("a")
    pod.ledger.resolve_quiet(QUIET_SECONDS)
    pod.sign("b", 80_000.0)
    assert await pod.turn()
    heir = await next_pod(pod.api)
    states = {one.object.uid: one.state for one in heir.ledger.findings()}
    assert states == {"a": "resolved", "b": "open"}
    assert saved(pod.api) == ["b", "a"], "what is left out first comes last"
    heir.ledger.tell_time(86_401.0, 0.0)
    heir.sign("c", 86_401.0)
    assert await heir.turn()
    assert saved(pod.api) == ["b", "c"]


async def test_a_count_alone_is_saved_once_a_minute():
    pod = await next_pod(ConfigMaps())
    pod.sign("a")
    assert await pod.turn()
    pod.sign("a")
    assert not await pod.turn(COUNT_SECONDS - 1)
    assert await pod.turn(SAVE_SECONDS)
    assert not await pod.turn(COUNT_SECONDS), "nothing has changed"


async def test_what_has_no_room_is_told_once(monkeypatch, caplog):
    caplog.set_level(logging.WARNING, LOGGER.name)
    monkeypatch.setattr(saved_findings, "pack", lambda rows, _: (pack(rows[:1], ())[0], 1))
    pod = await next_pod(ConfigMaps())
    for uid in "abc":
        pod.sign(uid)
        await pod.turn()
    assert [one.message for one in caplog.records] == ["not all findings had room"]


async def test_a_new_leader_takes_over_what_the_old_one_found_after_it_started():
    api = ConfigMaps()
    old = await next_pod(api)
    for uid in ("both", "untouched", "mine"):
        old.sign(uid)
    await old.turn()
    new = await next_pod(api)
    old.sign("both", 1, times=5)
    old.sign("untouched", 1, times=2)
    old.sign("unknown", 1)
    await old.turn(is_last=True)
    new.sign("both", 2)
    new.sign("mine", 2)
    new.sign("own", 2)
    await new.turn()
    assert new.counts == {"both": 6, "untouched": 3, "mine": 2, "own": 1, "unknown": 1}
    told = {one.object.uid for one in new.ledger.findings() if one.id in new.known}
    assert told == {"untouched", "unknown"}, "these were told by the old one"
    assert (await next_pod(api)).counts == new.counts


async def test_who_has_led_and_lost_it_reads_again_before_it_saves():
    api = ConfigMaps()
    mine, other = await next_pod(api), await next_pod(api)
    mine.sign("a")
    await mine.turn()
    other.sign("b")
    await other.turn()
    mine.sign("c")
    assert not await mine.turn(), "a conflict"
    assert await mine.turn()
    assert set(saved(api)) == {"a", "b", "c"}
    assert mine.carrying.failures == 0


@pytest.mark.parametrize(
    "content", [b"garbage", pack([("a\0b\0c\0d\0e", b"no entry")], ())[0]], ids=["block", "row"]
)
async def test_what_is_damaged_is_told_and_replaced_by_the_next_save(content, caplog):
    caplog.set_level(logging.WARNING, LOGGER.name)
    api = ConfigMaps()
    text = base64.b64encode(content).decode()
    api.store({"metadata": {"name": "genguard-findings"}, "binaryData": {"findings": text}})
    pod = await next_pod(api)
    assert pod.counts == {}
    assert {one.message for one in caplog.records} == {"findings not restored"}
    pod.sign("a")
    assert await pod.turn()
    assert saved(api) == ["a"]


@pytest.mark.parametrize("trouble", [RefusedError(403, "no"), OSError(), TimeoutError()], ids=str)
async def test_an_api_server_that_does_not_answer_keeps_no_server_from_starting(trouble, caplog):
    caplog.set_level(logging.WARNING, LOGGER.name)
    api = ConfigMaps()
    first = await next_pod(api)
    first.sign("a")
    await first.turn()
    api.trouble = [trouble]
    second = await next_pod(api)
    assert second.counts == {}
    assert [one.message for one in caplog.records] == ["findings not restored"]
    await second.turn(is_last=True)
    assert (await next_pod(api)).counts == {"a": 1}, "what could not be read was not overwritten"


async def test_a_save_that_fails_is_told_once_counted_and_made_good(caplog):
    caplog.set_level(logging.INFO, LOGGER.name)
    pod = await next_pod(ConfigMaps())
    await pod.turn()
    pod.sign("a")
    for _ in range(2):
        pod.api.trouble = [RefusedError(403, "no")]
        assert not await pod.turn()
    assert pod.carrying.failures == 2
    assert await pod.turn()
    assert saved(pod.api) == ["a"]
    assert [one.message for one in caplog.records] == [
        "findings not saved",
        "findings are saved again",
    ]


async def test_who_no_longer_leads_saves_once_more_and_then_follows(monkeypatch):
    monkeypatch.setattr(module, "SAVE_SECONDS", 0.001)
    pod = await next_pod(ConfigMaps(), stands_by=True)
    async with pod.carrying.running(Metrics(lambda group, resource: False), Supervisor()):
        pod.sign("a")
        await until(lambda: pod.api.found)
        pod.sign("b")
        pod.leads.is_leader = False
        await until(lambda: set(saved(pod.api)) == {"a", "b"})
        other = await next_pod(pod.api)
        other.sign("c")
        await other.turn()
        pod.now += SAVE_SECONDS
        await until(lambda: set(pod.counts) == {"a", "b", "c"})

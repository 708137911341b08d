"""A Lease among several: never two leaders, and after any of them is gone soon another one."""

import copy
import itertools
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhook.cluster.lease import LEASE_SECONDS, TICK_SECONDS, LeaseElection
from webhook.cluster.rest import RefusedError

PATH = "/apis/coordination.k8s.io/v1/namespaces/genguard-system/leases/genguard"


class Api:
    """One Lease, with the API server's optimistic locking."""

    def __init__(self) -> None:
        self.lease: dict[str, Any] | None = None
        self.version = 0
        self.calls: list[str] = []

    async def call(self, method: str, path: str, body: Any = None) -> Any:
        self.calls.append(method)
        if method == "POST":
            assert path == PATH.rpartition("/")[0]
            if self.lease is not None:
                raise RefusedError(409, "already exists")
            return self._store(body)
        assert path == PATH
        if self.lease is None:
            raise RefusedError(404, "not found")
        if method == "GET":
            return copy.deepcopy(self.lease)
        if body["metadata"]["resourceVersion"] != self.lease["metadata"]["resourceVersion"]:
            raise RefusedError(409, "changed meanwhile")
        return self._store(body)

    def _store(self, body: dict[str, Any]) -> dict[str, Any]:
        self.version += 1
        self.lease = copy.deepcopy(body)
        self.lease["metadata"]["resourceVersion"] = f"{self.version}"
        return copy.deepcopy(self.lease)


class Link:
    """One replica's way to the API, which may be cut."""

    def __init__(self, api: Api) -> None:
        self.api, self.cut = api, False

    async def call(self, method: str, path: str, body: Any = None) -> Any:
        if self.cut:
            raise OSError("no route")
        return await self.api.call(method, path, body)


class Candidates:
    """Several with one clock."""

    def __init__(self, count: int) -> None:
        self.now = 0.0
        self.api = Api()
        self.links = [Link(self.api) for _ in range(count)]
        self.leases = [
            LeaseElection(
                link, "genguard-system", "genguard", f"replica-{number}", lambda: self.now
            )
            for number, link in enumerate(self.links)
        ]

    @property
    def leaders(self) -> list[int]:
        return [number for number, one in enumerate(self.leases) if one.is_leader]

    async def pass_time(self, seconds: float, *alive: int) -> None:
        """These try, each TICK_SECONDS."""
        end = self.now + seconds
        while self.now < end:
            for number in alive:
                await self.leases[number].tick()
                assert len(self.leaders) <= 1
            self.now += TICK_SECONDS


async def test_after_a_crash_another_one_leads_within_a_lease_and_a_tick():
    three = Candidates(3)
    await three.pass_time(10, 0, 1, 2)
    last = three.now - TICK_SECONDS
    await three.pass_time(LEASE_SECONDS + TICK_SECONDS, 1, 2)
    assert three.leaders == [1]
    assert three.leases[1].vacant_since == last
    assert three.api.lease is not None
    assert three.api.lease["spec"]["leaseTransitions"] == 1


@pytest.mark.parametrize("status", [403, 500])
async def test_a_refusal_makes_no_leader(status, caplog):
    one = Candidates(1)

    async def refuse(*_: Any, **__: Any) -> Any:
        raise RefusedError(status, "no")

    one.links[0].call = refuse
    await one.pass_time(20, 0)
    assert one.leaders == []
    assert {record.message for record in caplog.records} == {"lease not renewed"}


@pytest.mark.parametrize("jump", [3_600, -3_600, 10**9, -(10**9)])
async def test_whatever_the_time_of_day_says_the_leader_leads_on(jump, monkeypatch):
    three = Candidates(3)
    told = itertools.cycle((0, jump))

    def put() -> str:
        return datetime.fromtimestamp(1_800_000_000 + next(told), UTC).isoformat()

    monkeypatch.setattr("webhook.cluster.lease._now", put)
    await three.pass_time(10, 0, 1, 2)
    await three.pass_time(60, 0, 1, 2)
    assert three.leaders == [0]
    assert three.api.lease is not None
    assert three.api.lease["spec"]["leaseTransitions"] == 0
    await three.pass_time(LEASE_SECONDS + TICK_SECONDS, 1, 2)
    assert three.leaders == [1]


steps = st.lists(
    st.one_of(
        st.tuples(st.just("tick"), st.integers(0, 2)),
        st.tuples(st.just("cut"), st.integers(0, 2)),
        st.tuples(st.just("mend"), st.integers(0, 2)),
        st.tuples(st.just("release"), st.integers(0, 2)),
        st.tuples(st.just("wait"), st.sampled_from([1, 2, 3, 7, 10, 30])),
    ),
    max_size=60,
)


@given(steps)
async def test_there_are_never_two(story):
    three = Candidates(3)
    for what, number in story:
        match what:
            case "tick":
                await three.leases[number].tick()
            case "release":
                await three.leases[number].release()
            case "wait":
                three.now += number
            case _:
                three.links[number].cut = what == "cut"
        assert len(three.leaders) <= 1

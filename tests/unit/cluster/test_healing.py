"""What is put back, by whom, and when a repair that does not hold is given up."""

import logging
from itertools import pairwise
from typing import Any

import jsonpatch
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from genguard.detection.damage import Damage, LostValue, is_broken, lost_values
from genguard.detection.finding_state import FindingState
from tests.cases_loader import table
from tests.unit.cluster.objects import Api, Findings, Leads, deployment, lost, path_of
from tests.unit.detection.test_damage import damage_of, observed, stored
from webhook.cluster.healing import (
    AGAIN_SECONDS,
    FIRST_WAIT_SECONDS,
    HELD_SECONDS,
    MOST_ATTEMPTS,
    REFUSED_SECONDS,
    Healing,
    Rechecking,
    repair_patch,
)
from webhook.cluster.rest import RefusedError
from webhook.cluster.stored_objects import StoredObjects
from webhook.telemetry.logs import LOGGER

WEB = deployment("web")
DAMAGED = FindingState("f1", "", WEB, "status", 0.0, 0.0, damage=lost(3))


class Scene:
    """A damaged Deployment, and a replica that may heal it."""

    def __init__(self, known: FindingState = DAMAGED, *, is_leader: bool = True) -> None:
        self.now = 1_000.0
        self.api, self.findings = Api(), Findings(known)
        self.api.put(WEB)
        self.leads = Leads(is_leader=is_leader)
        objects = StoredObjects(self.api)
        self.healing = Healing(objects, self.leads, lambda: self.now)
        self.rechecking = Rechecking(self.findings, objects, self.healing, lambda: self.now)

    async def turn(self, seconds: float = 0.0) -> None:
        self.now += seconds
        await self.rechecking.recheck()

    async def go_on(self, seconds: float) -> None:
        """A turn a second."""
        for _ in range(int(seconds)):
            await self.turn(1)

    @property
    def results(self) -> dict[str, int]:
        return {result: count for (result,), count in self.healing.counts() if count}


def clear(found: dict[str, Any]) -> None:
    """What a bad webhook does to an object on its way."""
    found["status"]["observedGeneration"] = 0


def test_a_repair_puts_back_the_values_of_this_very_version_and_nothing_else():
    both = Damage((LostValue(None, 4), LostValue("Ready", 4)), "controller")
    found = stored({"replicas": 1, "conditions": [{"type": "Other"}, {"type": "Ready"}]})
    patch = repair_patch(both, found)
    assert patch is not None
    assert patch[0] == {"op": "test", "path": "/metadata/resourceVersion", "value": "77"}
    assert jsonpatch.apply_patch(found, patch)["status"] == {
        "observedGeneration": 4,
        "replicas": 1,
        "conditions": [{"type": "Other"}, {"type": "Ready", "observedGeneration": 4}],
    }


@table("damage/no_repair.yaml", "damage", "status", "generation", "version")
def test_what_nobody_may_put_back_has_no_repair(case):
    found = stored(case["status"], case.get("generation", 4))
    found["metadata"]["resourceVersion"] = case.get("version", "77")
    assert repair_patch(damage_of(case), found) is None, case.because


@given(st.integers(1, 9), st.none() | st.integers(0, 9), st.booleans())
def test_what_a_repair_has_put_back_is_no_damage(value, left, has_condition):
    status: dict[str, Any] = {} if left is None else {"observedGeneration": left}
    if has_condition:
        status["conditions"] = [{"type": "Ready"}]
    sent = {"observedGeneration": value, "conditions": [{"type": "Ready", "observedGeneration": 1}]}
    damage = Damage(lost=lost_values(observed(sent), observed(status)), writer="controller")
    found = stored(status, generation=9)
    patch = repair_patch(damage, found)
    assert bool(patch) == bool(damage) == is_broken(damage, found)
    if patch:
        assert not is_broken(damage, jsonpatch.apply_patch(found, patch))


async def test_a_lost_value_is_put_back_told_and_counted(caplog):
    caplog.set_level(logging.INFO, LOGGER.name)
    scene = Scene()
    await scene.turn()
    assert scene.api.status(WEB) == {"observedGeneration": 3}
    assert scene.findings.seen == [("f1", True), ("f1", False)]
    assert scene.results == {"healed": 1}
    (record,) = caplog.records
    assert record.message == "status healed"
    assert record.fields == {
        "finding": "f1",
        "group": "apps",
        "resource": "deployments",
        "namespace": "shop",
        "name": "web",
        "writer": "deployment-controller",
        "set": {"status.observedGeneration": 3},
    }
    ((namespace, event),) = scene.api.events
    assert namespace == "shop"
    assert (event["reason"], event["type"], event["action"]) == ("StatusHealed", "Normal", "Heal")
    assert event["note"] == (
        "Put back status.observedGeneration=3, as deployment-controller had sent it; finding f1."
    )
    assert event["regarding"] == {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "namespace": "shop",
        "name": "web",
        "uid": "uid-of-web",
    }


@pytest.mark.parametrize(
    ("known", "why"),
    [
        (replace(DAMAGED, damage=lost(3, writer="")), "nobody saw who sent the value"),
        (replace(DAMAGED, subresource=""), "there is no right to patch the object itself"),
        (replace(DAMAGED, object=replace(WEB, uid="")), "another object may have its name now"),
        (replace(DAMAGED, last=999.0), "its writer may be about to write again"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_it_is_left_alone_where(known, why):
    scene = Scene(known)
    await scene.turn()
    assert scene.api.count("PATCH") == 0
    assert scene.results == {}


async def test_an_object_that_was_written_meanwhile_is_tried_again_at_the_next_look():
    scene = Scene()
    read = scene.api.read

    async def read_and_be_late(path: str) -> bytes:
        found = await read(path)
        scene.api.touch(WEB)
        return found

    scene.api.read = read_and_be_late
    await scene.turn()
    assert scene.results == {"conflict": 1}
    assert "observedGeneration" not in scene.api.status(WEB)
    scene.api.read = read
    await scene.go_on(AGAIN_SECONDS - 1)
    assert scene.api.count("PATCH") == 1
    await scene.turn(1)
    assert scene.results == {"conflict": 1, "healed": 1}


@pytest.mark.parametrize("status", [400, 403])
async def test_a_refusal_is_told_and_tried_again_much_later(status, caplog):
    caplog.set_level(logging.WARNING, LOGGER.name)
    scene = Scene()
    scene.api.trouble["PATCH"] = [RefusedError(status, "no")]
    await scene.turn()
    assert scene.results == {"refused": 1}
    assert [one.message for one in caplog.records] == ["status not healed"]
    await scene.go_on(REFUSED_SECONDS - AGAIN_SECONDS)
    assert scene.api.count("PATCH") == 1
    await scene.go_on(AGAIN_SECONDS)
    assert scene.results == {"refused": 1, "healed": 1}


async def test_a_webhook_that_clears_it_each_time_makes_no_loop(caplog):
    caplog.set_level(logging.WARNING, LOGGER.name)
    scene = Scene()
    scene.api.on_patch = clear
    at = []
    for _ in range(3_600):
        before = scene.api.count("PATCH")
        await scene.turn(1)
        if scene.api.count("PATCH") > before:
            at.append(scene.now)
    assert scene.results == {"failed": MOST_ATTEMPTS}
    waits = [after - before for before, after in pairwise(at)]
    assert waits == [FIRST_WAIT_SECONDS * 2**number for number in range(MOST_ATTEMPTS - 1)]
    told = [one.message for one in caplog.records]
    assert told == [
        *["status not healed"] * MOST_ATTEMPTS,
        "status is not healed any more until it changes",
    ]
    assert scene.findings.seen[-1] == ("f1", True), "it is still looked at"
    assert not scene.api.events


async def test_what_was_given_up_is_tried_again_when_its_damage_is_another():
    scene = Scene()
    scene.api.on_patch = clear
    await scene.go_on(1_000)
    scene.api.on_patch = lambda _: None
    await scene.go_on(1_000)
    assert scene.results == {"failed": MOST_ATTEMPTS}
    scene.findings.known["f1"] = replace(DAMAGED, damage=lost(2))
    await scene.go_on(AGAIN_SECONDS)
    assert scene.api.status(WEB) == {"observedGeneration": 2}


async def heal_and_lose(scene: Scene, seconds: float) -> None:
    """It is broken again so many seconds after each heal."""
    for _ in range(20):
        await scene.go_on(2)
        scene.findings.known["f1"] = DAMAGED
        scene.now += seconds
        scene.api.put(WEB)


async def test_a_value_that_is_lost_again_soon_after_each_heal_is_given_up(caplog):
    caplog.set_level(logging.WARNING, LOGGER.name)
    scene = Scene()
    await heal_and_lose(scene, HELD_SECONDS / 4)
    assert scene.results == {"healed": MOST_ATTEMPTS}
    assert [one.message for one in caplog.records] == [
        "status is not healed any more until it changes"
    ]


async def test_a_value_that_held_for_long_is_put_back_each_time():
    scene = Scene()
    await heal_and_lose(scene, HELD_SECONDS)
    assert scene.results == {"healed": 20}


steps = st.lists(
    st.one_of(
        st.tuples(st.just("wait"), st.sampled_from([1, 5, 30, 100, 700])),
        st.tuples(st.just("write"), st.just(0)),
        st.tuples(st.just("lose"), st.just(0)),
        st.tuples(st.just("delete"), st.just(0)),
        st.tuples(st.just("lead"), st.sampled_from([0, 1])),
        st.tuples(st.just("clobber"), st.sampled_from([0, 1])),
        st.tuples(st.just("refuse"), st.sampled_from([403, 404, 409, 422, 500])),
    ),
    max_size=40,
)


@given(steps)
async def test_whatever_happens_only_the_lost_value_is_ever_written_and_by_the_leader_alone(story):
    scene = Scene()
    for what, number in story:
        if what == "wait":
            await scene.go_on(min(number, 40))
            scene.now += max(0, number - 40)
        elif what == "delete":
            scene.api.objects.clear()
        elif what == "lead":
            scene.leads.is_leader = bool(number)
        elif what == "clobber":
            scene.api.on_patch = clear if number else lambda _: None
        elif what == "refuse":
            scene.api.trouble["PATCH"] = [RefusedError(number, "no")]
        else:
            scene.findings.known["f1"] = DAMAGED
            scene.api.put(WEB, replicas=1) if what == "write" else scene.api.put(WEB)
        patches = scene.api.count("PATCH")
        await scene.turn()
        if not scene.leads.is_leader:
            assert scene.api.count("PATCH") == patches
        found = scene.api.objects.get(path_of(WEB), {"status": {}})["status"]
        assert set(found) <= {"observedGeneration", "replicas"}
        assert found.get("observedGeneration") in (None, 0, 3)
    assert sum(scene.results.values()) == scene.api.count("PATCH")

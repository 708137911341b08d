"""matchConditions that cost a lot: nobody waits for them, neither a review nor `replay`."""

import asyncio
import json
import subprocess
import sys
import threading
from typing import Any

import pytest

from genguard.admission.matching import ResourceKind, read_configurations
from genguard.detection.mutators import Mutators
from genguard.objects.selectors import Truth
from tests.cases_loader import load
from tests.contract.service import Running, serving
from tests.costly_objects import costly_object
from tests.reviews import clobbered, make_review
from tests.unit.detection.test_actors import only_if
from tests.unit.detection.test_mutators import OWN, hook
from tests.waiting import PATIENCE, until
from webhook.cel.evaluator import Evaluator

CASES = load("conditions/costly.yaml", "expression", "over", "costly")
MOST_MEMORY_OF_REPLAY = 256 * 1024 * 1024
MEASURED = """
import resource, subprocess, sys
subprocess.run(sys.argv[1:], check=True)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""
# A process of its own: what a child has used is never less than what its parent had.


def hooks(over: str) -> list[dict[str, Any]]:
    """A webhook for each expression over such an object, and one without any."""
    expressions = [one["expression"] for one in CASES if one["over"] == over]
    found = [hook(f"m{n:02}", **only_if(one)) for n, one in enumerate(expressions)]
    return [*OWN, *found, hook("never-asks")]


def write(over: str, version: int) -> dict[str, dict[str, Any]]:
    """The three phases of a write of status, which another webhook clears."""
    stored = costly_object(over)
    stored["metadata"] = {**stored["metadata"], "resourceVersion": str(version)}
    asked = {**stored, "status": {"observedGeneration": 1, "replicas": version}}
    left = {**stored, "status": {"replicas": version}}
    return {
        phase: make_review(new=new, old=stored, subresource="status")
        for phase, new in (("intent", asked), ("mutate", left), ("outcome", left))
    }


def mutators(over: str, conditions: Any) -> Mutators:
    found = Mutators(read_configurations(hooks(over)), conditions=conditions)
    found.changed(ResourceKind("apps", "deployments", "status"))
    return found


class Held:
    """Evaluates for as long as it is told to."""

    def __init__(self) -> None:
        self.begun, self.end = threading.Event(), threading.Event()

    def evaluate(self, expressions, request):
        self.begun.set()
        assert self.end.wait(PATIENCE)
        return dict.fromkeys(expressions, Truth.UNKNOWN)


async def answered(run: Running) -> int:
    """One honest review, of another resource. Its connection is closed: a server keeps so many."""
    wire = await run.connect()
    try:
        return (await wire.post(json.dumps(clobbered()).encode())).status
    finally:
        await wire.close()


async def test_reviews_are_answered_while_conditions_are_evaluated(tmp_path):
    held = Held()
    async with serving(tmp_path, mutators=mutators("numbers", held)) as run:
        await run.review(write("numbers", 1)["intent"], "/intent")
        await asyncio.to_thread(held.begun.wait, PATIENCE)
        assert [await answered(run) for _ in range(10)] == [200] * 10
        held.end.set()


@pytest.mark.parametrize("over", sorted({one["over"] for one in CASES}))
async def test_reviews_are_answered_while_the_worst_conditions_are_evaluated(tmp_path, over):
    costly = sum(one["costly"] for one in CASES if one["over"] == over)
    with Evaluator() as evaluator:
        async with serving(tmp_path, mutators=mutators(over, evaluator)) as run:
            for version in range(3):
                for phase, review in write(over, version).items():
                    await run.review(review, f"/{phase}")
            count = 0

            async def is_over() -> bool:
                nonlocal count
                assert await answered(run) == 200
                count += 1
                return evaluator.costly >= costly and not len(run.detecting)

            await until(is_over, "all evaluated")
        assert count >= costly, "the loop went on while each of them was evaluated"
        # Each is tried twice.
        assert (evaluator.costly, evaluator.started <= 2 * costly + 1) == (costly, True)


@pytest.mark.parametrize("over", sorted({one["over"] for one in CASES}))
def test_replay_ends_within_its_memory_and_every_webhook_stays_possible(tmp_path, over):
    webhooks, recording = tmp_path / "webhooks.json", tmp_path / "recording.ndjson"
    webhooks.write_text(json.dumps({"kind": "List", "items": hooks(over)}))
    lines = [
        json.dumps({"time": f"2026-01-01T00:00:{version:02}Z", "phase": phase, "review": review})
        for version in range(6)
        for phase, review in write(over, version).items()
    ]
    recording.write_text("\n".join(lines))
    command = [sys.executable, "-m", "webhook", "replay", "-o", "json"]
    command += ["--webhooks", str(webhooks), str(recording)]
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, *command], capture_output=True, text=True, check=True
    )
    *lines, most = done.stdout.splitlines()
    assert int(most) * 1024 < MOST_MEMORY_OF_REPLAY
    found = [json.loads(line) for line in lines]
    (cleared,) = (one for one in found if one.get("detector") == "observed-generation-cleared")
    actors = {one["name"]: one["confidence"] for one in cleared["actors"]}
    names = {one["metadata"]["name"] for one in hooks(over)[len(OWN) :]}
    assert actors == {f"{name}/h.example.org": "possible" for name in names}

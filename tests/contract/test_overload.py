"""More than a server can take: every answer comes in time, and a verdict is one or is none."""

import asyncio
import json
import time
from collections import Counter
from dataclasses import replace
from itertools import product
from typing import NamedTuple

from genguard.admission.review import Phase
from genguard.review_setup import ReviewOptions
from tests.contract.service import Running, http_post, serving
from tests.reviews import clobbered
from tests.unit.detection.builders import feed, update
from tools.bench.connection import Connection, Response
from tools.bench.loops import closed_loop
from tools.bench.template import Filled

TIMEOUT = 2
"""Seconds that an API server waits with the manifests of this repository."""
CLIENTS = 150
IN_TIME = 1.5 * TIMEOUT
"""On a busy machine the clients themselves are late."""
SLOW = 0.03
"""Seconds a review: all clients at once are 4.5 seconds of work."""
BODY = json.dumps(clobbered()).encode()
POST = http_post(BODY, f"/mutate?timeout={TIMEOUT}s")


class Slow:
    """A rule that holds the event loop, as work of the processor does."""

    name = "slow"

    def evaluate(self, review):
        time.sleep(SLOW)
        return ()


class Answered(NamedTuple):
    status: bytes
    response: dict
    seconds: float


class Clients:
    """Each asks again as soon as it is answered; in a thread, so that nothing holds them up."""

    def __init__(self, run: Running) -> None:
        self._run = run
        self.answers: list[Answered] = []

    def next(self, _: Connection) -> Filled:
        return Filled(POST, b"", b"")

    def __call__(self, request: Filled, response: Response, seconds: float) -> None:
        del request
        body = json.loads(response.body)
        self.answers.append(Answered(response.status, body.get("response", {}), seconds))

    def ask(self, seconds: float) -> None:
        port = self._run.service.secure_port
        connections = [Connection(port, self._run.trust) for _ in range(CLIENTS)]
        try:
            closed_loop(connections, self, self, seconds=seconds, limit=10**9)
        finally:
            for one in connections:
                one.close()


async def overloaded(run: Running) -> list[Answered]:
    """Ask for longer than a timeout of a server that is slow meanwhile."""
    usual = run.setup.dependencies
    clients = Clients(run)
    run.setup.dependencies = replace(usual, repair_rules=(Slow(), *usual.repair_rules))
    await asyncio.to_thread(clients.ask, IN_TIME + 1.0)
    run.setup.dependencies = usual
    return clients.answers


async def test_what_cannot_be_examined_in_time_is_asked_to_come_again(running, logged):
    answers = await overloaded(running)
    came = Counter(one.status for one in answers)
    assert set(came) == {b"200", b"429"}
    assert max(one.seconds for one in answers) < IN_TIME
    assert all("patch" in one.response for one in answers if one.status == b"200")
    assert await running.samples("genguard_shed_total") == {
        'reason="late"': float(came[b"429"]),
        'reason="large"': 0.0,
        'reason="reading"': 0.0,
    }
    for _ in range(3):
        assert "patch" in await running.review(clobbered()), "and then all is as before"
    assert logged().count("overloaded: reviews are shed") == 1


async def test_audit_only_allows_what_it_has_no_time_for(tmp_path, logged):
    async with serving(tmp_path, options=ReviewOptions(audit_only=True)) as run:
        answers = await overloaded(run)
        assert {one.status for one in answers} == {b"200"}
        assert all(one.response["allowed"] for one in answers)
        assert max(one.seconds for one in answers) < IN_TIME
        shed = [one for one in answers if one.response["auditAnnotations"].get("skipped")]
        assert {one.response["auditAnnotations"]["skipped"] for one in shed} == {"overloaded"}
        assert 0 < len(shed) < len(answers)
        assert (await run.samples("genguard_shed_total"))['reason="late"'] == len(shed)
        assert "skipped" not in (await run.review(clobbered()))["auditAnnotations"]
    text = logged()
    assert text.count("overloaded: reviews are shed") == 1
    assert "not examined" not in text, "a line a review would make it worse"


async def test_a_pause_alone_sheds_what_came_in_it(running):
    """What waited where nobody could see it has waited all the same; the last is alone again."""
    late = [await running.connect() for _ in range(3)]
    for one in late:
        one.writer.write(http_post(BODY, "/mutate?timeout=1s"))
    time.sleep(1.0)
    answers = [await one.answer() for one in late]
    assert sorted(one.status for one in answers) == [200, 429, 429]
    shed = [one for one in answers if one.status == 429]
    assert {one.headers["retry-after"] for one in shed} == {"1"}
    assert not any(one.closes for one in shed)
    assert (await late[0].post(BODY, "/mutate?timeout=30s")).status == 200


async def test_what_was_shed_of_one_tenant_leaves_the_findings_of_others_alone(running):
    detecting, now = running.detecting, running.detecting.clock.now()
    for number, name in product(range(8), ("bursting", "quiet")):
        new, old = ({"replicas": 2 + (number + back) % 2} for back in (0, 1))
        user = f"user-{number % 2}"
        asked = update({"spec": new}, {"spec": old}, f"{number}", user=user, name=name)
        for side in ("object", "oldObject"):
            asked["request"][side]["metadata"]["uid"] = name
        for phase in Phase:
            feed(detecting.detection, phase, asked, now + number)
    assert {one.object.name for one in detecting.findings()} == {"bursting", "quiet"}
    body = json.dumps(clobbered(name="bursting")).encode()
    late = [await running.connect() for _ in range(20)]
    for one in late:
        one.writer.write(http_post(body, "/mutate?timeout=1s"))
    time.sleep(1.0)
    assert 429 in [(await one.answer()).status for one in late]
    in_doubt = {one.object.name for one in detecting.findings() if one.incomplete_since}
    assert in_doubt == {"bursting"}


async def test_a_lone_review_is_examined_however_long_it_waited(running, logged):
    late = await running.connect()
    late.writer.write(http_post(BODY, "/mutate?timeout=1s"))
    time.sleep(1.5)
    answer = await late.answer()
    assert (answer.status, "patch" in json.loads(answer.body)["response"]) == (200, True)
    assert (await running.samples("genguard_shed_total"))['reason="late"'] == 0
    assert "overloaded" not in logged()


async def test_clients_that_ask_nothing_make_a_review_no_less_alone(running):
    idle = [await running.connect() for _ in range(3)]
    assert (await idle[0].post(BODY, "/mutate?timeout=30s")).status == 200
    late = await running.connect()
    late.writer.write(http_post(BODY, "/mutate?timeout=1s"))
    time.sleep(1.0)
    assert (await late.answer()).status == 200


async def test_a_client_with_more_patience_is_answered(running):
    late = await running.connect()
    late.writer.write(http_post(BODY, "/mutate?timeout=30s"))
    time.sleep(1.0)
    assert (await late.answer()).status == 200

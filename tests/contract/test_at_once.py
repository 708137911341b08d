"""An ordinary review is answered as soon as it is read, with those that came at the same time;
another way is taken by what comes in pieces.

Both ways must answer alike, whatever is asked: the one that is quick, and aiohttp's own.
"""

import asyncio
import json
from dataclasses import replace

import pytest
from aiohttp import web

from tests.contract.hostile import GOOD, review_text
from tests.contract.service import Answer, Running, Wire, head, http_post, serving
from tests.reviews import clobbered, make_review
from webhook.admission.join import JoinKey
from webhook.compose import JudgeOptions
from webhook.objects.intended import Intended
from webhook.objects.observed import Observed
from webhook.patch.edit import Edit
from webhook.rules.restore_intent import Intents
from webhook.rules.rule import RuleInput
from webhook.server.admission import AdmissionHandler
from webhook.server.connection import Connection

LOST = json.dumps(clobbered()).encode()
REQUESTS = {
    "a review": http_post(LOST),
    "of another phase": http_post(LOST, "/outcome?timeout=2s"),
    "what is allowed unread": http_post(review_text(SPEC="[" * 2_000 + "]" * 2_000).encode()),
    "no review": http_post(b"{}"),
    "nothing": http_post(b""),
    "another path": http_post(LOST, "/validate"),
    "another method": http_post(LOST).replace(b"POST", b"PUT", 1),
    "another type": http_post(LOST, Content_Type="text/plain"),
    "a type with a parameter": http_post(LOST, Content_Type="application/json; charset=utf-8"),
    "compressed": http_post(LOST, Content_Encoding="gzip"),
    "the last of its connection": http_post(LOST, Connection="close"),
    "of HTTP/1.0": http_post(LOST).replace(b"HTTP/1.1", b"HTTP/1.0", 1),
    "no HTTP": head("POST /mutate HTTP/9.1", [("Host", "genguard")]),
    "in chunks": head(
        "POST /mutate HTTP/1.1",
        [
            ("Host", "genguard"),
            ("Content-Type", "application/json"),
            ("Transfer-Encoding", "chunked"),
        ],
    )
    + b"%x\r\n%b\r\n0\r\n\r\n" % (len(LOST), LOST),
}


async def ask(run: Running, *pieces: bytes) -> Answer:
    """Each piece is read before the next one is sent."""
    wire = await run.connect()
    for piece in pieces:
        await wire.send(piece)
        await asyncio.sleep(0.05)
    return await wire.answer()


async def alone(run: Running) -> tuple[Wire, Connection]:
    """The only connection that there is: here, and on the server's side."""
    wire = await run.connect()
    while len(run.service._server.connections) != 1:
        await asyncio.sleep(0.01)  # until its own probe has gone, and the server has this one
    (connection,) = run.service._server.connections
    return wire, connection


def without_date(answer: Answer) -> tuple[int, dict[str, str], bytes]:
    """`server` is of aiohttp's own responses alone."""
    left_out = ("date", "server")
    fields = {name: value for name, value in answer.headers.items() if name not in left_out}
    return answer.status, fields, answer.body


@pytest.mark.parametrize("asked", REQUESTS.values(), ids=list(REQUESTS))
async def test_in_one_piece_and_in_two_the_answer_is_the_same(tmp_path, asked):
    body = asked.index(b"\r\n\r\n") + 4
    found = []
    for pieces in ([asked], [asked[:body], asked[body:]], [asked[: body + 9], asked[body + 9 :]]):
        async with serving(tmp_path, judge=JudgeOptions()) as run:
            found.append(without_date(await ask(run, *filter(None, pieces))))
    assert found[0] == found[1] == found[2]


async def test_a_server_that_drains_closes_what_it_answers_in_one_piece_too(running):
    running.service._handler.draining = True
    assert (await ask(running, http_post(LOST))).closes


async def test_quick_and_slow_take_turns_on_one_connection(running):
    wire = await running.connect()
    request = http_post(GOOD.encode())
    for _ in range(5):
        for pieces in ([request], [request[:300], request[300:]], [request * 3]):
            for piece in pieces:
                await wire.send(piece)
                await asyncio.sleep(0.005)
            for _ in range(sum(len(piece) for piece in pieces) // len(request)):
                assert (await wire.answer()).status == 200
    sent = 5 * (1 + 1 + 3)
    counted = await running.samples("genguard_reviews_total")
    assert sum(counted.values()) == sent


async def test_a_request_and_the_beginning_of_the_next(running):
    asked = [make_review("CREATE", new={"spec": {}}) for _ in range(2)]
    first, second = (http_post(json.dumps(one).encode()) for one in asked)
    wire = await running.connect()
    await wire.send(first + second[:100])
    answer = await wire.answer()
    assert answer.json["response"]["uid"] == asked[0]["request"]["uid"]
    await wire.send(second[100:])
    answer = await wire.answer()
    assert answer.json["response"]["uid"] == asked[1]["request"]["uid"]


async def test_an_answer_sets_the_clock_after_which_an_idle_connection_is_closed(running):
    wire, connection = await alone(running)
    closing = [connection._next_keepalive_close_time]
    for pieces in ([http_post(LOST)], [http_post(LOST)[:300], http_post(LOST)[300:]]):
        for piece in pieces:
            await asyncio.sleep(0.01)
            await wire.send(piece)
        assert (await wire.answer()).status == 200
        await asyncio.sleep(0.01)
        closing.append(connection._next_keepalive_close_time)
    assert closing == sorted(set(closing))


class FailsFor:
    """A rule that has a fault where it sees one write."""

    name = "fails"

    def __init__(self, uid: str) -> None:
        self.uid = uid

    def evaluate(self, given: RuleInput) -> tuple[Edit, ...]:
        if given.request.wire.uid == self.uid:
            raise AttributeError("a fault")
        return ()


async def test_of_many_that_come_together_each_has_its_own_answer_and_its_own_fault(running):
    asked = [make_review("CREATE", new={"spec": {}}) for _ in range(40)]
    uids = [one["request"]["uid"] for one in asked]
    deps = running.judge.dependencies
    running.judge.dependencies = replace(deps, mending=(*deps.mending, FailsFor(uids[7])))
    wires = [await running.connect() for _ in asked]
    for wire, one in zip(wires, asked, strict=True):
        wire.writer.write(http_post(json.dumps(one).encode()))
    answers = [await wire.answer() for wire in wires]
    assert [one.status for one in answers] == [500 if at == 7 else 200 for at in range(40)]
    told = [one.json["response"]["uid"] for one in answers if one.status == 200]
    assert told == uids[:7] + uids[8:]


class Others:
    """Replicas that know of every write that it asked for observedGeneration 7."""

    def __init__(self) -> None:
        self.intents: Intents | None = None
        self.asked: list[JoinKey] = []

    def lacks(self, key: JoinKey, now: float) -> bool:
        del now
        return key not in self.asked

    async def fetch(self, key: JoinKey, now: float) -> None:
        await asyncio.sleep(0)
        self.asked.append(key)
        assert self.intents is not None
        self.intents.put(key, Intended(Observed(7, ())), now)


async def test_with_others_to_ask_only_what_lost_something_waits_for_them(tmp_path, monkeypatch):
    others, slow = Others(), []
    call = AdmissionHandler.__call__

    async def counted(handler: AdmissionHandler, request: web.BaseRequest) -> web.Response:
        slow.append(request.path)
        return await call(handler, request)

    monkeypatch.setattr(AdmissionHandler, "__call__", counted)
    async with serving(tmp_path, elsewhere=others) as run:
        others.intents = run.judge.dependencies.intents
        wire, _ = await alone(run)
        slow.clear()
        status = {"status": {"observedGeneration": 3}}
        kept = json.dumps(
            make_review(new=status, old=status, subresource="status", name="kept")
        ).encode()
        told = [(await wire.post(body)).json["response"] for body in (kept, LOST, kept, LOST)]
    assert ["restore-intent" in one.get("auditAnnotations", {}) for one in told] == [
        False, True, False, True,
    ]  # fmt: skip
    assert len(others.asked) == len(slow) == 1, "the second time the intent is known"


async def test_a_rest_that_comes_soon_is_waited_for(running, monkeypatch):
    wire, connection = await alone(running)
    await wire.post(LOST)

    async def slow(*_: object) -> None:
        raise AssertionError("aiohttp's own way is taken")

    monkeypatch.setattr(AdmissionHandler, "__call__", slow)
    request = http_post(LOST)
    for _ in range(3):
        for piece in (request[:100], request[100:300], request[300:]):
            connection.data_received(piece)
            await asyncio.sleep(0)
        assert (await wire.answer()).status == 200
    assert connection._patience is None


async def test_a_rest_that_comes_as_the_waiting_ends_is_read_by_one_of_both_ways(running, logged):
    wire, connection = await alone(running)
    await wire.post(LOST)
    for _ in range(3):
        connection.data_received(http_post(LOST)[:300])
        await asyncio.sleep(0)
        connection.data_received(http_post(LOST)[300:])
        connection._hand_over()
        assert (await wire.answer()).status == 200
    assert sum((await running.samples("genguard_reviews_total")).values()) == 4
    assert "never retrieved" not in logged()


async def test_a_connection_that_is_to_be_closed_answers_what_it_has_read(running):
    wire, connection = await alone(running)
    await wire.post(LOST)
    connection.data_received(http_post(LOST))
    connection.close()
    assert (await wire.answer()).status == 200


async def test_of_a_connection_that_is_lost_the_rest_is_not_waited_for(running, logged):
    wire, connection = await alone(running)
    await wire.post(LOST)
    connection.data_received(http_post(LOST)[:300])
    await asyncio.sleep(0)
    assert connection._patience is not None
    connection.connection_lost(None)
    assert connection._patience is None
    assert "failed" not in logged()


async def test_a_connection_that_is_lost_before_its_answer_is_asked_nothing(running, logged):
    wire, connection = await alone(running)
    await wire.post(LOST)
    connection.data_received(http_post(LOST))
    connection.connection_lost(None)
    await asyncio.sleep(0.01)
    assert sum((await running.samples("genguard_reviews_total")).values()) == 1
    assert "failed" not in logged()

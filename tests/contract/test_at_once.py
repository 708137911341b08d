"""Requests in one piece, in several, and several in one piece; many connections at once."""

import asyncio
import json
from dataclasses import replace

import pytest

from genguard.admission.review import JoinKey
from genguard.objects.intended import Intended
from genguard.objects.observed import Observed
from genguard.patch.operations import Edit
from genguard.review_setup import ReviewOptions
from genguard.rules.restore_intent import Intents
from genguard.rules.rule import RuleInput
from tests.contract.hostile import GOOD, review_text
from tests.contract.service import Answer, Running, head, http_post, serving
from tests.reviews import clobbered, make_review

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
        async with serving(tmp_path, options=ReviewOptions()) as run:
            found.append(without_date(await ask(run, *filter(None, pieces))))
    assert found[0] == found[1] == found[2]


async def test_a_server_that_drains_closes_what_it_answers_in_one_piece_too(running):
    running.service._handler.draining = True
    assert (await ask(running, http_post(LOST))).closes


async def test_whole_and_cut_requests_take_turns_on_one_connection(running):
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
    deps = running.setup.dependencies
    running.setup.dependencies = replace(deps, repair_rules=(*deps.repair_rules, FailsFor(uids[7])))
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

    def lacks(self, key: JoinKey) -> bool:
        return key not in self.asked

    async def fetch(self, key: JoinKey, now: float) -> None:
        await asyncio.sleep(0)
        self.asked.append(key)
        assert self.intents is not None
        self.intents.put(key, Intended(Observed(7, ())), now)


async def test_with_others_to_ask_only_what_lost_something_waits_for_them(tmp_path):
    others = Others()
    async with serving(tmp_path, remote_intents=others) as run:
        others.intents = run.setup.dependencies.intents
        wire = await run.connect()
        status = {"status": {"observedGeneration": 3}}
        kept = json.dumps(
            make_review(new=status, old=status, subresource="status", name="kept")
        ).encode()
        told = [(await wire.post(body)).json["response"] for body in (kept, LOST, kept, LOST)]
    assert ["restore-intent" in one.get("auditAnnotations", {}) for one in told] == [
        False, True, False, True,
    ]  # fmt: skip
    assert len(others.asked) == 1, "the second time the intent is known"


def many(count: int, **fields: str) -> tuple[list[str], bytes]:
    """So many requests, one behind the other, and their uids."""
    asked = [make_review("CREATE", new={"spec": {}}) for _ in range(count)]
    requests = b"".join(http_post(json.dumps(one).encode(), **fields) for one in asked)
    return [one["request"]["uid"] for one in asked], requests


@pytest.mark.parametrize("count", [31, 32, 33, 34, 64, 65, 200])
@pytest.mark.parametrize("cut", [0, 300, -300])
async def test_each_of_many_requests_is_answered_in_order(running, count, cut):
    uids, requests = many(count)
    wire = await running.connect()
    for piece in filter(None, (requests[:cut], requests[cut:])):
        await wire.send(piece)
        await asyncio.sleep(0.01)
    assert [(await wire.answer()).json["response"]["uid"] for _ in uids] == uids


@pytest.mark.parametrize("protocol", ["websocket", "tcp", "h2c"])
async def test_a_request_for_an_upgrade_is_answered_and_ends_its_connection(running, protocol):
    wire = await running.connect()
    _, behind = many(3)
    await wire.send(http_post(LOST, Connection="Upgrade", Upgrade=protocol) + behind)
    answer = await wire.answer()
    assert answer.status == 200
    assert answer.closes
    assert await wire.closed()


@pytest.mark.parametrize("count", [1, 2, 32])
async def test_junk_behind_requests_is_refused_and_none_has_the_answer_of_another(running, count):
    """aiohttp forgets what it has parsed of a piece that ends in junk; API servers send no such."""
    uids, requests = many(count)
    wire = await running.connect()
    await wire.send(requests + b"\x00\x01 this is no request\r\n\r\n")
    answer = await wire.answer()
    while answer.status == 200:
        assert answer.json["response"]["uid"] == uids.pop(0)
        answer = await wire.answer()
    assert (answer.status, answer.json["error"]) == (400, "bad_http")
    assert await wire.closed()


CHUNKED = {"Content_Length": "", "Transfer_Encoding": "chunked"}


@pytest.mark.parametrize("fields", [{"Content_Length": str(len(LOST))}, CHUNKED])
async def test_who_waits_for_being_asked_for_the_body_is_asked(running, fields):
    wire = await running.connect()
    await wire.send(http_post(b"", Expect="100-continue", **fields))
    assert (await wire.answer()).status == 100
    chunked = b"%x\r\n%b\r\n0\r\n\r\n" % (len(LOST), LOST)
    await wire.send(chunked if fields is CHUNKED else LOST)
    assert (await wire.answer()).status == 200
    assert (await wire.post(LOST)).status == 200


EXPECTING = {
    "the body is there": (http_post(LOST, Expect="100-continue"), 200),
    "too large": (http_post(b"", Expect="100-continue", Content_Length=str(10**9)), 413),
    "another type": (
        http_post(b"", Expect="100-continue", Content_Type="text/plain", Content_Length="9"), 415
    ),
}  # fmt: skip


@pytest.mark.parametrize(("asked", "status"), EXPECTING.values(), ids=list(EXPECTING))
async def test_nobody_is_asked_for_a_body_that_is_there_or_not_wanted(running, asked, status):
    wire = await running.connect()
    await wire.send(asked)
    assert (await wire.answer()).status == status

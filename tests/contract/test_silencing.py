"""Who may acknowledge and silence findings over the ops port, and who may not: a page elsewhere."""

import asyncio
import json

import pytest

from genguard.detection.silences import MOST_SILENCES, Silence
from tests.contract.service import Running, Wire, head, serving
from tests.dashboard.stories import Story, suspects
from webhook.server.access import ByToken, Part, Refusal
from webhook.server.tokens import TokenFile

TOKEN = "0123456789abcdef"  # noqa: S105
GOOD = {"action": "silence", "reason": "GG-17", "by": "ana", "seconds": 3_600}
JSON = "application/json"


@pytest.fixture
async def running(tmp_path):
    async with serving(tmp_path, suspects=suspects()) as run:
        yield run


async def post(run: Running, path: str, body: bytes, **headers: str):
    wire = Wire(*await asyncio.open_connection("127.0.0.1", run.service.ops_port))
    run._wires.append(wire)
    fields = {"Host": "localhost", "Content-Type": JSON, "Content-Length": str(len(body))}
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    await wire.send(head(f"POST {path} HTTP/1.1", {**fields, **given}.items()) + body)
    return await wire.answer()


async def found(run: Running) -> str:
    """The path of the silence of a finding."""
    await Story(run).cleared(4)
    (one,) = run.detecting.findings()
    return f"/api/findings/{one.id}/silence"


async def test_a_finding_is_silenced_listed_and_ended(running):
    path = await found(running)
    answer = await post(running, path, json.dumps(GOOD).encode())
    assert answer.status == 200, answer.body
    made = answer.json
    assert (made["action"], made["reason"], made["by"]) == ("silenced", "GG-17", "ana")
    assert made["severity"] == "warning"
    listed = (await running.ops("/api/silences")).json
    assert listed == {"silences": [made]}
    answer = await post(running, path, b'{"action": "end"}')
    assert (answer.status, answer.json["action"]) == (200, "ended")
    assert (await running.ops("/api/silences")).json == {"silences": []}
    assert (await post(running, path, b'{"action": "end"}')).status == 404


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Origin": "https://attacker.example.org"}, 403),
        ({"Origin": "http://localhost:8081"}, 403),
        ({"Origin": "null"}, 403),
        ({"Sec_Fetch_Site": "cross-site"}, 403),
        ({"Sec_Fetch_Site": "same-site"}, 403),
        ({"Content_Type": "text/plain"}, 415),
        ({"Content_Type": "application/x-www-form-urlencoded"}, 415),
        ({"Content_Type": "multipart/form-data"}, 415),
        ({"Content_Type": ""}, 415),
        ({"Host": "attacker.example.org"}, 403),
        ({"Origin": "http://localhost", "Sec_Fetch_Site": "same-origin"}, 200),
        ({"Content_Type": "application/json; charset=utf-8"}, 200),
        ({}, 200),
    ],
)
async def test_a_page_of_another_site_changes_nothing(running, headers, status):
    path = await found(running)
    answer = await post(running, path, json.dumps(GOOD).encode(), **headers)
    assert answer.status == status
    assert len(running.silences) == (status == 200)


@pytest.mark.parametrize(
    ("body", "status", "told"),
    [
        (b"", 413, "1 to 4096 bytes"),
        (b" " * 5_000, 413, "1 to 4096 bytes"),
        (b"{", 400, "cannot be used"),
        (b"\xff", 400, "cannot be used"),
        (b"[" * 4_000, 400, "cannot be used"),
        ({**GOOD, "action": "delete"}, 400, "action"),
        ({**GOOD, "reason": " "}, 400, "give a reason"),
        ({**GOOD, "reason": "x" * 301}, 400, "reason"),
        ({**GOOD, "by": "x" * 101}, 400, "by"),
        ({**GOOD, "seconds": 59}, 400, "give seconds, from 60"),
        ({**GOOD, "seconds": 31 * 86_400}, 400, "seconds"),
        ({**GOOD, "until": "tomorrow"}, 400, "until"),
    ],
)
async def test_what_cannot_be_used_is_refused_and_says_why(running, body, status, told):
    path = await found(running)
    sent = body if isinstance(body, bytes) else json.dumps(body).encode()
    answer = await post(running, path, sent)
    assert answer.status == status
    assert told in answer.json["error"]
    assert len(running.silences) == 0


async def test_a_finding_that_is_not_known_is_not_silenced(running):
    answer = await post(running, "/api/findings/none/silence", json.dumps(GOOD).encode())
    assert answer.status == 404
    assert "no finding has this id" in answer.json["error"]


async def test_there_is_room_for_so_many(running):
    path = await found(running)
    (one,) = running.detecting.findings()
    assert (await post(running, path, json.dumps(GOOD).encode())).status == 200
    (made,) = running.silences.all(0.0)
    for number in range(MOST_SILENCES):
        parts = made.action, made.reason, made.by, made.at, made.until, made.severity
        running.silences.merge([Silence(f"f-{number}", *parts)], made.at)
    assert len(running.silences) == MOST_SILENCES
    running.silences.end(one.id, "", made.at)
    running.silences.merge([Silence("last", *parts)], made.at)
    answer = await post(running, path, json.dumps(GOOD).encode())
    assert answer.status == 409
    assert "end one of them" in answer.json["error"]


async def test_with_tokens_it_takes_one(tmp_path):
    file = tmp_path / "token"
    file.write_text(TOKEN)
    file.chmod(0o600)
    async with serving(tmp_path, suspects=suspects(), access=ByToken(TokenFile(file))) as run:
        path = await found(run)
        sent = json.dumps(GOOD).encode()
        assert (await post(run, path, sent)).status == 401
        assert (await post(run, path, sent, Authorization="Bearer wrong")).status == 401
        assert (await post(run, path, sent, Authorization=f"Bearer {TOKEN}")).status == 200


class OnlyLooking:
    """An Access that lets everybody look and nobody change anything."""

    async def refuses(self, request, part):
        del request
        return Refusal(403, "no") if part is Part.CHANGES else None


async def test_who_may_only_look_changes_nothing(tmp_path):
    async with serving(tmp_path, suspects=suspects(), access=OnlyLooking()) as run:
        path = await found(run)
        assert (await run.ops("/api/silences")).status == 200
        assert (await post(run, path, json.dumps(GOOD).encode())).status == 403
        assert len(run.silences) == 0


async def test_a_read_only_dashboard_changes_nothing_and_says_so(tmp_path):
    async with serving(tmp_path, suspects=suspects(), ops_read_only=True) as run:
        path = await found(run)
        answer = await post(run, path, json.dumps(GOOD).encode())
        assert answer.status == 403
        assert "--ops-read-only" in answer.json["error"]
        page = (await run.ops(path.removeprefix("/api").removesuffix("/silence"))).body
        assert b"--ops-read-only" in page
        assert b"data-silence" not in page


async def test_a_standby_says_who_is_active_and_is_told_no_silence(tmp_path):
    async with serving(tmp_path, suspects=suspects(), stands_by_for="genguard-a") as run:
        path = await found(run)
        answer = await post(run, path, json.dumps(GOOD).encode())
        assert answer.status == 409
        assert "ask the active one, genguard-a" in answer.json["error"]
        page = (await run.ops(path.removeprefix("/api").removesuffix("/silence"))).body
        assert b"silence on the active one, genguard-a" in page
        assert b"data-silence" not in page
        for page in ("/", "/objects", "/server"):
            assert b"standby of genguard-a" in (await run.ops(page)).body
        assert "genguard-a answers" in (await run.ops("/api/broken")).json["missing"][0]
        assert (await run.ops("/api/server")).json["about"]["active"] == "genguard-a"

"""The dashboard's pages and JSON, as HTTP: what they say, to whom, and what a browser may do."""

import asyncio
import json
from urllib.parse import urlsplit

import pytest

from tests.contract.service import head, serving
from tests.dashboard.stories import Story
from tests.monitoring.rules import RUNBOOKS
from tests.waiting import patiently
from webhook.dashboard.routes import PAGES
from webhook.server.access import TokenFile
from webhook.server.settings import Settings

OPEN = ("/livez", "/readyz")
SHOWN = [
    *(path for page in PAGES for path in (page.path, page.api) if "{" not in path),
    *("/static/dashboard.css", "/static/dashboard.js", "/static/icon.svg"),
]
TOKEN = "0123456789abcdef"  # noqa: S105


@pytest.fixture
async def guarded(tmp_path):
    file = tmp_path / "token"
    file.write_text(TOKEN)
    file.chmod(0o600)
    async with serving(tmp_path, access=TokenFile(file)) as run:
        yield run


@pytest.mark.parametrize("scheme", [b"Bearer", b"Basic", b"Digest"])
@pytest.mark.parametrize("sent", [b"\xff", b"\xed\xa0\x80", b"a\xc3"])
async def test_a_token_that_is_no_text_is_refused_as_any_other(guarded, scheme, sent):
    wire = await guarded.dial()
    await wire.send(b"GET / HTTP/1.1\r\nHost: x\r\nAuthorization: %b %b\r\n\r\n" % (scheme, sent))
    answer = await wire.answer()
    assert answer.status == 401
    assert b"token" in answer.body


@pytest.mark.parametrize("path", [*SHOWN, *OPEN, "/metrics", "/nowhere", "/?severity=bad"])
async def test_every_answer_forbids_what_contents_of_objects_could_do(running, path):
    found = (await running.ops(path)).headers
    policy = dict(
        part.strip().split(" ", 1) for part in found["content-security-policy"].split(";")
    )
    assert policy["default-src"] == policy["frame-ancestors"] == policy["base-uri"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == "'self'"
    assert "unsafe" not in found["content-security-policy"]
    assert found["x-content-type-options"] == "nosniff"
    assert found["referrer-policy"] == "no-referrer"
    assert found["cache-control"] == "no-store"
    assert found["cross-origin-resource-policy"] == "same-origin"
    assert "access-control-allow-origin" not in found


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
@pytest.mark.parametrize("path", ["/", "/api/findings", "/metrics", "/api/changes"])
async def test_there_is_nothing_to_change(running, method, path):
    assert (await running.ops(path, method)).status == 405


@pytest.mark.parametrize("path", SHOWN)
async def test_without_tokens_another_name_for_this_host_is_refused(running, path):
    answer = await running.ops(path, Host="attacker.example.org:8080")
    assert answer.status == 403
    assert b"attacker" not in answer.body
    for open_one in (*OPEN, "/metrics"):
        assert (await running.ops(open_one, Host="10.1.2.3:8080")).status in (200, 503)


@pytest.mark.parametrize("path", [*SHOWN, "/metrics", "/api/changes", "/nowhere"])
async def test_with_tokens_everything_but_the_probes_takes_one(guarded, path):
    answer = await guarded.ops(path)
    assert answer.status == 401
    assert answer.headers["www-authenticate"].startswith("Basic")  # the last of the two
    assert (await guarded.ops(path, Authorization="Bearer wrong")).status == 401
    assert (await guarded.ops(path, Authorization=f"Bearer {TOKEN}")).status not in (401, 403)


@pytest.mark.parametrize("path", OPEN)
async def test_the_probes_are_for_everybody(guarded, path):
    assert (await guarded.ops(path)).status == 200


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.path)
async def test_each_page_has_json_behind_it(running, page):
    values = {"id": "none", "name": "GenguardDown"}
    path, api = (one.format(**values) for one in (page.path, page.api))
    html, shown = await running.ops(path), await running.ops(api)
    assert html.headers["content-type"] == "text/html; charset=utf-8"
    assert shown.headers["content-type"].startswith("application/json")
    assert html.status == shown.status
    if html.status != 200:
        assert set(shown.json) == {"error"}


async def test_what_is_not_there_is_said_in_kind(running):
    assert (await running.ops("/api/nowhere")).json == {"error": "This page does not exist."}
    assert b"<h1>Not found</h1>" in (await running.ops("/nowhere")).body
    assert (await running.ops("/static/../routes.py")).status == 404
    assert (await running.ops("/static/%2e%2e%2froutes.py")).status == 404
    for name in ("..%2fREADME", "%2e%2e", "a%00b", "none"):
        assert (await running.ops(f"/runbooks/{name}")).status == 404


async def test_every_runbook_that_an_alert_links_is_served(running):
    """Alerts link the server's own pages: a cluster may have no way to the internet."""
    place = urlsplit(Settings().runbooks).path
    for page in RUNBOOKS.iterdir():
        assert (await running.ops(f"{place}/{page.stem}")).status == 200


async def test_a_head_is_answered_at_once(running):
    wire = await running.dial()
    await wire.send(head("HEAD / HTTP/1.1", [("Host", "localhost"), ("Connection", "close")]))
    async with patiently():
        answer = await wire.reader.read()
    assert b" 200 " in answer.partition(b"\r\n")[0]
    assert answer.endswith(b"\r\n\r\n")


async def test_findings_have_the_shape_that_programs_know(running):
    found = (await running.ops("/api/findings")).json
    assert found["findings"] == []
    assert found["total"] == 0


async def test_a_page_hears_how_many_are_open_and_that_nothing_has_changed(running):
    changes = (await running.ops("/api/changes")).json
    changes.pop("objectChanges")  # a machine that stood still moves the times of what is known
    assert changes == {"findingChanges": 0, "open": {}}


async def test_only_so_many_pages_wait_for_their_turn(running):
    turns = running.dashboard._queue
    async with turns._one:
        asking = [asyncio.create_task(running.ops("/api/objects")) for _ in range(30)]
        while turns._left:
            await asyncio.sleep(0)
        busy = await running.ops("/")
        assert busy.status == 503
        assert b"Busy" in busy.body
    answers = await asyncio.gather(*asking)
    assert {answer.status for answer in answers} == {200, 503}
    assert [one.status for one in answers].count(200) == 16


async def test_the_ops_port_speaks_tls_where_it_is_told_to(tmp_path):
    async with serving(tmp_path, ops_tls=True) as run:
        answer = await run.ops("/api/server", tls=True)
        assert json.loads(answer.body)["fingerprint"] == run.service.certificate.fingerprint


async def test_what_is_broken_has_json_of_its_own(running):
    found = (await running.ops("/api/broken")).json
    assert found["state"] == "unknown"
    assert found["notSettled"] == []
    assert (await running.ops("/api/broken?x=1")).status == 400


@pytest.mark.parametrize(("query", "status", "writes"), [("", 200, 4), ("&since=15m", 400, None)])
async def test_a_timeline_is_of_all_writes_that_are_known(running, query, status, writes):
    await Story(running).cleared(4)
    names = "group=apps&resource=deployments&namespace=shop&name=web&uid=uid-web"
    found = await running.ops(f"/api/object?{names}{query}")
    assert found.status == status
    assert len(found.json.get("writes", ())) == (writes or 0)
    page = await running.ops(f"/object?{names}{query}")
    assert page.status == status
    assert (b"</svg>\n  </div>" in page.body) == bool(writes)

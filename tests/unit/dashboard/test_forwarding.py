"""A standby passes reads on to the active pod: with the caller's rights, once, and bounded."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer, make_mocked_request

from certs import PairSnapshot, issue
from webhook.dashboard import page as module
from webhook.dashboard.page import Forwarding
from webhook.server.tls import ServingCertificate


class Active:
    """A pod that answers as it is told, and keeps what it was asked."""

    def __init__(self) -> None:
        self.answer = lambda: web.json_response({"findings": []})
        self.asked: list[web.Request] = []

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(request)
        return self.answer()


@pytest.fixture
def active() -> Active:
    return Active()


@pytest.fixture
async def server(active: Active) -> AsyncIterator[TestServer]:
    application = web.Application()
    application.router.add_get("/{path:.*}", active.handle)
    async with TestServer(application) as running:
        yield running


def forwarding(server: TestServer) -> Forwarding:
    return Forwarding(lambda: ("127.0.0.1", server.port or 0), tls=False)


def asked(**headers: str) -> web.Request:
    return make_mocked_request("GET", "/api/findings?state=all&q=a%2Fb", headers=headers)


async def test_a_read_is_passed_on_with_the_callers_own_authorization_and_no_cookie(active, server):
    answer = await forwarding(server).ask(asked(Authorization="Bearer t", Cookie="c=1"), "")
    assert answer is not None
    assert (answer.status, answer.content_type) == (200, "application/json")
    assert answer.body == b'{"findings": []}'
    (request,) = active.asked
    assert dict(request.query) == {"state": "all", "q": "a/b"}
    assert request.headers["Authorization"] == "Bearer t"
    assert "Cookie" not in request.headers


async def test_what_was_passed_on_once_is_not_passed_on_again(active, server):
    await forwarding(server).ask(asked(), "")
    (request,) = active.asked
    assert (
        await forwarding(server).ask(make_mocked_request("GET", "/", request.headers), "") is None
    )
    assert len(active.asked) == 1


@pytest.mark.parametrize("status", [302, 401, 403, 500, 503])
async def test_a_refusal_is_no_answer(active, server, status):
    active.answer = lambda: web.Response(status=status, headers={"Location": "/elsewhere"})
    assert await forwarding(server).ask(asked(), "") is None
    assert len(active.asked) == 1


async def test_an_answer_has_a_bound_and_a_deadline(active, server, monkeypatch):
    monkeypatch.setattr(module, "_MOST_BYTES", 10)
    assert await forwarding(server).ask(asked(), "") is None
    monkeypatch.setattr(module, "_SECONDS", 0.0)
    assert await forwarding(server).ask(asked(), "") is None


async def test_where_nobody_is_active_or_reached_there_is_no_answer():
    assert await Forwarding(lambda: None, tls=False).ask(asked(), "") is None
    assert await Forwarding(lambda: ("127.0.0.1", 1), tls=False).ask(asked(), "") is None


class Pair:
    """A pair that is made for one test."""

    def __init__(self) -> None:
        made = issue(names=("g",), at=datetime.now(UTC))
        self._pair = PairSnapshot(made.cert_pem, made.key_pem, made.ca_pem)

    def read(self) -> PairSnapshot:
        return self._pair

    def location(self, part: str) -> str:
        return part


async def test_over_tls_it_must_show_the_certificate_of_this_pod(active):
    serving = ServingCertificate(Pair(), at=datetime.now(UTC))
    application = web.Application()
    application.router.add_get("/{path:.*}", active.handle)
    running = TestServer(application, scheme="https")
    await running.start_server(ssl=serving.context)
    over = Forwarding(lambda: ("127.0.0.1", running.port or 0), tls=True)
    assert await over.ask(asked(), serving.details.fingerprint) is not None
    assert await over.ask(asked(), "00" * 32) is None
    await running.close()

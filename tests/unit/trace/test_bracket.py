"""Registrations are removed through refusals and lost connections, and nothing else is touched."""

from datetime import UTC, datetime, timedelta
from typing import Any

import aiohttp
import pytest

from genguard.trace.plan import EXPIRES, OWNER, RUN_LABEL, registrations
from tests.cases_loader import table
from tests.unit.trace.samples import configuration, planned
from webhook.cluster.rest import RefusedError
from webhook.cluster.tracing import CONFIGURATIONS, StillRegisteredError, remove
from webhook.server.trace_listener import Reach

LATER = datetime.now(UTC) + timedelta(hours=1)


class FakeServer:
    """Keeps configurations by name; `trouble` is raised instead of answers, one a call."""

    def __init__(self, *documents: dict[str, Any]) -> None:
        self.stored = {one["metadata"]["name"]: one for one in documents}
        self.trouble: list[Exception] = []
        self.lost_answers = 0

    async def list_all(self, path: str, params: Any = None, **_: str) -> Any:
        self._fail()
        run = (params or {}).get("labelSelector", "").partition("=")[2]
        items = self.stored.values()
        return [one for one in items if not run or _labels(one).get(RUN_LABEL) == run]

    async def call(self, method: str, path: str, body: Any = None, **_: Any) -> Any:
        self._fail()
        if method == "POST":
            body["metadata"].setdefault("uid", "u")
            self.stored[body["metadata"]["name"]] = body
            if self.lost_answers:
                self.lost_answers -= 1
                raise aiohttp.ServerDisconnectedError
            return body
        name = path.rsplit("/", 1)[1]
        if name not in self.stored:
            raise RefusedError(404, "not found")
        assert body["preconditions"]["uid"] == self.stored[name]["metadata"]["uid"]
        return self.stored.pop(name)

    def _fail(self) -> None:
        if self.trouble:
            raise self.trouble.pop(0)


def _labels(one: dict[str, Any]) -> dict[str, str]:
    return one["metadata"].get("labels") or {}


def observer(name: str, *, owner: str = "", expires: datetime = LATER) -> dict[str, Any]:
    found = configuration(name, labels={RUN_LABEL: "old"})
    found["metadata"]["annotations"] = {EXPIRES: expires.isoformat(), OWNER: owner}
    return found


def bodies() -> list[dict[str, Any]]:
    return list(registrations(planned("a", "b"), "https://h", "CA", "me", LATER))


async def register(server: FakeServer) -> None:
    for one in bodies():
        await server.call("POST", CONFIGURATIONS, one)


@pytest.mark.parametrize(
    "trouble",
    [
        [aiohttp.ServerDisconnectedError()],
        [ConnectionRefusedError(), TimeoutError()],
        [RefusedError(503, "etcd"), RefusedError(429, "slow down")],
    ],
)
@pytest.mark.slow
async def test_a_lost_connection_is_waited_out(trouble):
    server = FakeServer()
    await register(server)
    server.trouble = trouble
    await remove(server, "abcd")  # type: ignore[arg-type]
    assert not server.stored


async def test_a_creation_whose_answer_was_lost_is_found_by_its_label():
    server = FakeServer()
    server.lost_answers = 1
    with pytest.raises(aiohttp.ServerDisconnectedError):
        await register(server)
    assert server.stored
    await remove(server, "abcd")  # type: ignore[arg-type]
    assert not server.stored


@pytest.mark.parametrize("error", [RefusedError(403, "forbidden"), ConnectionResetError()])
async def test_what_cannot_be_removed_is_told_with_the_command_that_does(error):
    server = FakeServer()
    await register(server)
    server.trouble = [error] * 3
    with pytest.raises(StillRegisteredError, match=f"-l {RUN_LABEL}=abcd"):
        await remove(server, "abcd", 0.0)  # type: ignore[arg-type]


@table("trace/reach.yaml", "url", "listen", "address", "dialled")
def test_how_the_api_server_reaches_it(case):
    reach = Reach.of(case["url"], case["listen"], "https://127.0.0.1:6443")
    found = (reach.address, reach.url(5000))
    assert found == (case["address"], case["dialled"]), case.because

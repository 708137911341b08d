"""Who may use the store, and over what: users with few rights, passwords in files, TLS."""

import socket
import ssl
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import certs
from tests.store.proxy import Proxy
from tests.store.server import StoreServer
from tests.store.test_intents import Story
from tests.store.test_observations import Member, examined, members
from tests.waiting import until
from webhook.store.address import ValkeyAddress, parse_store

ROOT = Path(__file__).parents[2]
_SECRET = "not-in-any-log"  # noqa: S105


def _documented_rights() -> list[str]:
    """The line of docs/replicas.md that people copy, without its user and password."""
    (line,) = (
        line
        for line in (ROOT / "docs" / "replicas.md").read_text().splitlines()
        if line.startswith("ACL SETUSER genguard")
    )
    return line.split()[5:]


@pytest.fixture(scope="module")
def user(store: StoreServer) -> str:
    store.run("ACL", "SETUSER", "genguard", "on", f">{_SECRET}", *_documented_rights())
    return "genguard"


def address(text: str) -> ValkeyAddress:
    found = parse_store(text)
    assert isinstance(found, ValkeyAddress)
    return found


async def refused(text: str, caplog: pytest.LogCaptureFixture) -> str:
    """Why this replica cannot use its store, as the log says."""
    one = Member(address(text))
    async with one.replicas.joined(one.leadership, one.metrics, one.supervisor):
        await until(lambda: "store lost" in caplog.messages)
    assert _SECRET not in caplog.text
    (record,) = (one for one in caplog.records if one.message == "store lost")
    reason: str = record.fields["reason"]
    return reason


async def test_the_documented_rights_are_enough(user, proxy, caplog):
    at = address(f"valkey://{user}:{_SECRET}@127.0.0.1:{proxy.port}/0")
    async with members(at, 2) as each:
        story = Story(each)
        await story.intend(0, 5, "acl")
        await story.mutate(1, "acl")
        assert each[1].replicas.store.requests["fetch", "lost"] == 0
        each[1].put("seen")
        await examined(each[0], ["seen"])
        assert each[0].replicas.store.requests["read", "lost"] == 0
        await each[0].replicas._reader.take_due(float("inf"), each[0].supervisor)
        assert each[0].replicas.store.requests["read", "lost"] == 0
    assert "store lost" not in caplog.messages


async def test_other_keys_are_none_of_its_business(user, proxy, caplog):
    at = f"valkey://{user}:{_SECRET}@127.0.0.1:{proxy.port}/0?prefix=another:"
    assert "ACL" in await refused(at, caplog)


async def test_a_password_in_a_file_is_read_anew(user, proxy, tmp_path, caplog):
    file = tmp_path / "password"
    file.write_text("the one of yesterday\n")
    at = f"valkey://{user}@127.0.0.1:{proxy.port}/0?password-file={file}"
    assert await refused(at, caplog) == "user or password refused"
    one = Member(address(at))
    async with one.replicas.joined(one.leadership, one.metrics, one.supervisor):
        await until(lambda: caplog.messages.count("store lost") == 2)
        file.write_text(f"{_SECRET}\n")
        await until(lambda: one.up)


@pytest.fixture(params=[("localhost", "right"), ("localhost", "wrong"), ("elsewhere", "right")])
def dialled(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[str, str]]:
    """The name of a host, each of which is this one, and the authority that is trusted."""
    look_up = socket.getaddrinfo

    def look_up_here(_: object, *more: Any, **named: Any) -> Any:
        return look_up("127.0.0.1", *more, **named)

    monkeypatch.setattr(socket, "getaddrinfo", look_up_here)
    yield request.param


async def test_tls_needs_the_given_authority_and_the_name_of_the_server(
    store, tmp_path, caplog, dialled
):
    host, trusted = dialled
    for name in ("right", "wrong"):
        certs.ensure(tmp_path / name, names=("localhost",), at=datetime.now(UTC))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "right" / "tls.crt", tmp_path / "right" / "tls.key")
    with Proxy(store.socket, context) as proxy:
        at = f"valkeys://{host}:{proxy.port}/0?cafile={tmp_path}/{trusted}/ca.crt"
        if dialled == ("localhost", "right"):
            async with members(address(at), 1) as (one,):
                assert one.up
        else:
            assert "TLS failed" in await refused(at, caplog)

"""A connection leaves no socket open, and a server knows its own user."""

import asyncio
import base64
import gc
import json
import ssl
import threading
import time
import warnings
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from socket import create_server

from certs.issue import issue
from tests.cases_loader import table
from tests.waiting import PATIENCE
from webhook.cluster import connection as module
from webhook.cluster.connection import IN_CLUSTER, connected, server_user
from webhook.cluster.rest import Rest

_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
_CHUNK = b"2\r\n{}\r\n"
_SLOW_SECONDS = 0.3


@contextmanager
def slow_server(folder: Path) -> Iterator[Path]:
    """Begins an answer that never ends, and is late to see that nobody listens; its kubeconfig."""
    issued = issue(names=(), at=datetime.now(UTC))
    (folder / "tls.crt").write_bytes(issued.cert_pem)
    (folder / "tls.key").write_bytes(issued.key_pem)
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(folder / "tls.crt", folder / "tls.key")

    def answer() -> None:
        with tls.wrap_socket(listener.accept()[0], server_side=True) as connection:
            connection.recv(65536)
            connection.sendall(_HEAD + _CHUNK)
            time.sleep(_SLOW_SECONDS)

    with create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=answer)
        thread.start()
        cluster = {
            "server": f"https://127.0.0.1:{listener.getsockname()[1]}",
            "certificate-authority-data": b64encode(issued.ca_pem).decode(),
        }
        config = {
            "current-context": "slow",
            "contexts": [{"name": "slow", "context": {"cluster": "slow", "user": "slow"}}],
            "clusters": [{"name": "slow", "cluster": cluster}],
            "users": [{"name": "slow", "user": {"token": "none"}}],
        }
        path = folder / "kubeconfig"
        path.write_text(json.dumps(config))
        yield path
        thread.join()


async def leave_a_watch(kubeconfig: Path) -> None:
    heard = asyncio.Event()

    async def watch(rest: Rest) -> None:
        async with rest.stream("/api/v1/pods", watch="true") as response:
            async for _ in response.content.iter_any():
                heard.set()

    async with connected(str(kubeconfig)) as api:
        assert Rest(api).cluster == "slow"
        watching = asyncio.create_task(watch(Rest(api)))
        await asyncio.wait_for(heard.wait(), PATIENCE)
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)


def test_a_watch_that_was_cancelled_is_closed_before_the_event_loop_is(tmp_path: Path) -> None:
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        with slow_server(tmp_path) as kubeconfig:
            asyncio.run(leave_a_watch(kubeconfig))
        gc.collect()
    assert [str(one.message) for one in heard if "unclosed" in str(one.message)] == []


def token(claims: object) -> str:
    part = base64.urlsafe_b64encode(json.dumps(claims).encode()).rstrip(b"=").decode()
    return f"head.{part}.signature"


@table("cluster/token_users.yaml", "claims", "content", "user")
def test_it_is_the_subject_of_the_token(case, tmp_path, monkeypatch):
    file = tmp_path / "token"
    file.write_text(case.get("content") or token(case["claims"]))
    monkeypatch.setattr(module, "_TOKEN", file)
    monkeypatch.setattr(module, "default_namespace", lambda _: "default")
    assert server_user(IN_CLUSTER) == case["user"], case.because


def test_elsewhere_it_is_the_account_that_install_makes(tmp_path):
    file = tmp_path / "kubeconfig"
    context = {"cluster": "c", "user": "u", "namespace": "guard"}
    config = {
        "current-context": "here",
        "contexts": [{"name": "here", "context": context}],
        "clusters": [{"name": "c", "cluster": {"server": "https://h"}}],
        "users": [{"name": "u", "user": {}}],
    }
    file.write_text(json.dumps(config))
    assert server_user(str(file)) == "system:serviceaccount:guard:genguard"

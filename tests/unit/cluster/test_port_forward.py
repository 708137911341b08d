"""The ops port of a pod by a forwarded port; the API server and the node are played here."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import WSMsgType, web
from kubernetes.aio import client

from certs import issue
from webhook.cli.asking_server import NoServerError, NotInstalledError
from webhook.cli.options import Access
from webhook.cluster.rest import Rest

PODS = "/api/v1/namespaces/genguard-system/pods"
USUAL = Access(None, None)


def pod(name: str, *, ready: bool = True, args: tuple[str, ...] = (), **metadata: Any) -> Any:
    ports = [{"name": "webhook", "containerPort": 8443}, {"name": "ops", "containerPort": 8081}]
    return {
        "metadata": {"name": name, **metadata},
        "spec": {"containers": [{"args": list(args), "ports": ports}]},
        "status": {"conditions": [{"type": "Ready", "status": str(ready)}]},
    }


DEPLOYMENT = "/apis/apps/v1/namespaces/genguard-system/deployments/genguard"


class Node:
    """An API server that lists pods, and forwards the port of each to a server of this host."""

    def __init__(
        self, *pods: Any, port: int = 0, error: str = "", status: int = 101, deployed: int = 404
    ) -> None:
        self.now = pods
        self.deployed = deployed
        self._port = port
        self._error = error
        self.status = status
        self.asked: list[str] = []

    async def pods(self, request: web.Request) -> web.Response:
        assert request.query["labelSelector"] == "app.kubernetes.io/name=genguard"
        head = {"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}}
        return web.json_response({**head, "items": self.now})

    async def deployment(self, _: web.Request) -> web.Response:
        return web.json_response({"kind": "Deployment", "message": "no"}, status=self.deployed)

    async def forward(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(f"{request.match_info['pod']}:{request.query['ports']}")
        if self.status != 101:
            return web.json_response({"message": "no"}, status=self.status)
        far = web.WebSocketResponse(protocols=("v4.channel.k8s.io",))
        await far.prepare(request)
        port = int(request.query["ports"]).to_bytes(2, "little")
        # The data channel says its port in one piece with the first data: both are allowed.
        await far.send_bytes(b"\x01" + port)
        if self._error:
            await far.send_bytes(b"\x00" + port)
            await far.send_bytes(b"\x01" + self._error.encode())
            await far.close()
            return far
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)

        async def back() -> None:
            lead = port
            while piece := await reader.read(1000):
                await far.send_bytes(b"\x00" + lead + piece)
                lead = b""

        task = asyncio.create_task(back())
        async for message in far:
            assert message.type is WSMsgType.BINARY
            assert message.data[0] == 0
            writer.write(message.data[1:])
        task.cancel()
        writer.close()
        return far


@asynccontextmanager
async def played(node: Node) -> AsyncIterator[str]:
    """Play the API server; yields its URL."""
    application = web.Application()
    application.router.add_get(PODS, node.pods)
    application.router.add_get(f"{PODS}/{{pod}}/portforward", node.forward)
    application.router.add_get(DEPLOYMENT, node.deployment)
    runner = web.AppRunner(application)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


@asynccontextmanager
async def served(node: Node) -> AsyncIterator[Rest]:
    async with played(node) as url:
        api = client.ApiClient(client.Configuration(host=url))
        try:
            yield Rest(api)
        finally:
            await api.close()


@asynccontextmanager
async def ops(context: ssl.SSLContext | None = None, token: str = "") -> AsyncIterator[int]:
    """An ops port that answers with who asks; yields its port."""

    async def answer(request: web.Request) -> web.Response:
        if token and request.headers.get("Authorization") != f"Bearer {token}":
            return web.Response(status=401, text="genguard: this takes a token.\n\nPrograms: ...\n")
        return web.json_response({"host": request.host, "padding": "x" * 5000})

    application = web.Application()
    application.router.add_get("/api/findings", answer)
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
    try:
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


async def ask(rest: Rest, access: Access = USUAL) -> dict[str, str]:
    async with access.reached(rest) as server:
        first = await server.ask("/api/findings", {}, msgspec.Raw)
        again = await server.ask("/api/findings", {}, msgspec.Raw)
        assert first == again
        assert first is not None
        found: dict[str, str] = msgspec.json.decode(first)
        return found


async def test_of_several_pods_it_asks_the_active_one() -> None:
    async with ops() as port:
        node = Node(pod("a"), pod("b", labels={"genguard.io/active": "true"}), port=port)
        async with served(node) as rest:
            await ask(rest)
    assert node.asked == ["b:8081"]


async def test_with_tls_and_a_token(tmp_path: Path) -> None:
    pair = issue(names=("genguard",), at=datetime.now(UTC))
    (tmp_path / "pair.pem").write_bytes(pair.cert_pem + pair.key_pem)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "pair.pem")
    async with ops(context, "secret") as port:
        node = Node(pod("a", args=("serve", "--ops-tls")), port=port)
        async with served(node) as rest:
            with pytest.raises(NoServerError, match=r"this takes a token; give --token-file FILE$"):
                await ask(rest)
            asked = await ask(rest, Access(None, None, None, "secret"))
            assert asked["host"].startswith("127.0.0.1:")


@pytest.mark.parametrize(
    ("node", "said"),
    [
        (Node(), "^not installed in namespace genguard-system: `genguard scan` needs nothing$"),
        (
            Node(deployed=200),
            "^no pod of genguard is ready in .*: genguard doctor -n genguard-system says why$",
        ),
        (Node(pod("a", ready=False), deployed=403), "^no pod of genguard is ready in"),
        (Node(pod("a", deletionTimestamp="2026-01-01T00:00:00Z"), deployed=200), "says why"),
    ],
)
async def test_what_is_not_installed_and_what_is_not_ready_are_told_apart(
    node: Node, said: str
) -> None:
    async with served(node) as rest:
        with pytest.raises(NotInstalledError, match=said):
            await ask(rest)


@pytest.mark.parametrize(
    ("node", "reason"),
    [
        (Node(pod("a"), status=403), r"Forbidden \(403\)\); it takes the right to get and create"),
        (Node(pod("a"), error="error forwarding port 8081"), "error forwarding port 8081"),
    ],
)
async def test_why_a_port_is_not_forwarded_is_told(node: Node, reason: str) -> None:
    async with served(node) as rest:
        with pytest.raises(NoServerError, match=reason) as found:
            await ask(rest)
    assert str(found.value).startswith("pod a in namespace genguard-system: no answer")
    assert "\n" not in str(found.value)

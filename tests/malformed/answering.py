"""What answers where a kubeconfig says that an API server is, and is none that helps."""

import json
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, NamedTuple

import certs

_HTML = b"<html><body>Welcome to nginx!</body></html>"


class _Answers(BaseHTTPRequestHandler):
    """The first part of the path says what is answered."""

    def do_GET(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        self.rfile.read(length)
        status, body = _answer(self.path.split("/")[1])
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_PATCH = do_GET  # noqa: N815 - names of http.server

    def log_message(self, *_: Any) -> None:
        pass


def _answer(kind: str) -> tuple[int, bytes]:
    if kind in ("401", "403"):
        message = {"401": "Unauthorized", "403": 'deployments.apps is forbidden: User "me"'}[kind]
        return int(kind), json.dumps({"kind": "Status", "message": message}).encode()
    return 200, {"html": _HTML, "json": b'{"hello": "world"}', "text": b"5"}[kind]


class Places(NamedTuple):
    """URLs of servers that do not help."""

    plain: str
    """Add /401, /403, /html, /json or /text."""
    untrusted: str
    no_tls: str
    silent: str
    unreachable: str


@contextmanager
def places(folder: Path) -> Iterator[Places]:
    """Serve all of them while the context is entered."""
    certs.ensure(folder, names=("localhost",), at=datetime.now(UTC))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "tls.crt", folder / "tls.key")
    plain = ThreadingHTTPServer(("127.0.0.1", 0), _Answers)
    tls = ThreadingHTTPServer(("127.0.0.1", 0), _Quiet)
    tls.socket = context.wrap_socket(tls.socket, server_side=True)
    threads = [Thread(target=each.serve_forever, args=(0.05,)) for each in (plain, tls)]
    with socket.create_server(("127.0.0.1", 0)) as silent, socket.socket() as free:
        free.bind(("127.0.0.1", 0))  # bound, and nobody listens
        for each in threads:
            each.start()
        try:
            yield Places(
                f"http://127.0.0.1:{plain.server_port}",
                f"https://127.0.0.1:{tls.server_port}",
                f"https://127.0.0.1:{plain.server_port}",
                f"http://127.0.0.1:{silent.getsockname()[1]}",
                f"https://127.0.0.1:{free.getsockname()[1]}",
            )
        finally:
            for server in (plain, tls):
                server.shutdown()
                server.server_close()
            for each in threads:
                each.join()


class _Quiet(_Answers):
    """A client that refuses the certificate ends the handshake: that is what is tried here."""

    def handle(self) -> None:
        try:
            super().handle()
        except OSError:
            self.close_connection = True

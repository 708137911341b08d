"""An Alertmanager that forgets nothing it is told."""

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any, Self


class Alertmanager:
    """Keeps the alerts that are sent to its API, or that a real one notifies of."""

    def __init__(self) -> None:
        self.alerts: list[dict[str, Any]] = []
        self.sizes: list[int] = []
        """How many alerts were in each request."""
        self._server = HTTPServer(("127.0.0.1", 0), self._handler())
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        kept, sizes = self.alerts, self.sizes

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:  # the name http.server asks for
                sent = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                alerts = sent["alerts"] if isinstance(sent, dict) else sent
                kept.extend(alerts)
                sizes.append(len(alerts))
                self.send_response(200)
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 (inherited)
                """Says nothing."""

        return Handler

"""An OpenTelemetry collector for tests: takes spans by gRPC and by HTTP, and keeps them."""

import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

_GRPC = "opentelemetry.proto.collector.trace.v1.TraceService"


@dataclass(frozen=True, slots=True)
class SeenSpan:
    """One span as it came over the wire; ids in hexadecimal digits, times in nanoseconds."""

    service: str
    name: str
    trace: str
    id: str
    parent: str
    start: int
    end: int
    attributes: Mapping[str, Any]


class Collector:
    """What has come, and where to send it."""

    def __init__(self) -> None:
        self.grpc_endpoint = ""
        self.http_endpoint = ""
        self.raw = b""
        """All that came, for what must not be in it."""
        self._spans: list[SeenSpan] = []
        self._lock = threading.Lock()

    def spans(self, service: str) -> list[SeenSpan]:
        """What one service has sent so far."""
        with self._lock:
            return [one for one in self._spans if one.service == service]

    def take(self, body: bytes) -> bytes:
        """Keep one request; return the answer to it."""
        asked = ExportTraceServiceRequest.FromString(body)
        with self._lock:
            self.raw += body
            for resource in asked.resource_spans:
                service = _attributes(resource.resource.attributes)["service.name"]
                for scope in resource.scope_spans:
                    self._spans += [_seen(service, span) for span in scope.spans]
        return bytes(ExportTraceServiceResponse().SerializeToString())


def _seen(service: str, span: Any) -> SeenSpan:
    return SeenSpan(
        service,
        span.name,
        span.trace_id.hex(),
        span.span_id.hex(),
        span.parent_span_id.hex(),
        span.start_time_unix_nano,
        span.end_time_unix_nano,
        _attributes(span.attributes),
    )


def _attributes(pairs: Any) -> dict[str, Any]:
    return {one.key: getattr(one.value, str(one.value.WhichOneof("value"))) for one in pairs}


@contextmanager
def collecting(*, grpc: bool = False) -> Iterator[Collector]:
    """Listen on loopback while the context is entered; by gRPC as well, if asked."""
    collector = Collector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            answer = collector.take(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.send_header("Content-Type", "application/x-protobuf")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    collector.http_endpoint = f"http://127.0.0.1:{server.server_port}"
    try:
        if grpc:
            with _grpc(collector) as port:
                collector.grpc_endpoint = f"127.0.0.1:{port}"
                yield collector
        else:
            yield collector
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def _grpc(collector: Collector) -> Iterator[int]:
    """Listen as what the API server exports to; its generated code would need one more package."""
    import grpc  # noqa: PLC0415 - it starts threads

    export = grpc.unary_unary_rpc_method_handler(lambda body, _: collector.take(body))
    server = grpc.server(ThreadPoolExecutor(2))
    server.add_generic_rpc_handlers(
        [grpc.method_handlers_generic_handler(_GRPC, {"Export": export})]
    )
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield port
    finally:
        server.stop(None).wait()

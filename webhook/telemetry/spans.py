"""Exports one span for each review, as part of the API server's trace, by OpenTelemetry.

Environment  the variables of OpenTelemetry turn it on and configure it. Without an endpoint or
             OTEL_TRACES_EXPORTER nothing of OpenTelemetry is imported
Cost         a review hands a span to a bounded queue; a thread exports. No answer waits
Content      names and counts; of the objects nothing
"""

import asyncio
import logging
import os
import threading
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from http import HTTPStatus
from typing import Any, Final

from genguard.admission.review import Phase
from genguard.objects.shown import printable
from genguard.review import Reply, Verdict
from webhook import __version__
from webhook.telemetry import declarations
from webhook.telemetry.logs import LOGGER
from webhook.telemetry.metrics import Metrics, decision_of

MOST_SPANS: Final = 1_024
"""Spans that wait for the exporter, each up to 8 KiB, unless OTEL_BSP_MAX_QUEUE_SIZE is set."""
CLOSE_SECONDS: Final = 2.0
"""How long the end of the server waits for the last spans."""
_SERVICE: Final = "genguard"
_PROTOCOL: Final = "http/protobuf"
_LONGEST_NAME: Final = 256
_LONGEST_STATE: Final = 512
"""Characters of a tracestate header that are passed on; W3C Trace Context, 3.3.1.5."""


class BadTracingError(ValueError):
    """A variable of OpenTelemetry cannot be followed; the message names it and what to do."""


def asks_for_spans(environment: Mapping[str, str]) -> bool:
    """Whether the variables of OpenTelemetry ask for spans. Raises BadTracingError."""
    values = {name: value.strip() for name, value in environment.items()}
    exporter = values.get("OTEL_TRACES_EXPORTER", "")
    endpoint, protocol = (
        values.get("OTEL_EXPORTER_OTLP_TRACES_" + name) or values.get("OTEL_EXPORTER_OTLP_" + name)
        for name in ("ENDPOINT", "PROTOCOL")
    )
    if values.get("OTEL_SDK_DISABLED", "").lower() == "true" or exporter == "none":
        return False
    if not exporter and not endpoint:
        return False
    if exporter not in ("", "otlp"):
        raise BadTracingError(f"OTEL_TRACES_EXPORTER={exporter}: give otlp or none")
    if protocol not in (None, "", _PROTOCOL):
        raise BadTracingError(
            f"OTEL_EXPORTER_OTLP_PROTOCOL={protocol}: genguard exports by {_PROTOCOL} alone, which "
            "collectors take at port 4318"
        )
    return True


@asynccontextmanager
async def exporting_spans(metrics: Metrics) -> AsyncIterator["ExportedSpans | None"]:
    """Export spans while the context is entered; None where no variable asks for them.

    At the end the last spans are sent, for CLOSE_SECONDS at most. Raises BadTracingError.
    """
    if not asks_for_spans(os.environ):
        yield None
        return
    spans = ExportedSpans(os.environ)
    metrics.counts(declarations.SPANS, spans.counts)
    try:
        yield spans
    finally:
        await spans.close()


class ExportedSpans:
    """Makes the span of each review, and keeps those that wait for the exporter bounded."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        """Start the thread that exports. Raises BadTracingError."""
        try:
            # An optional extra, of megabytes: imported when it is asked for.
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import (  # noqa: PLC0415
                OTLPSpanExporter,
            )
            from opentelemetry.sdk.resources import (  # noqa: PLC0415
                SERVICE_NAME,
                SERVICE_VERSION,
                OTELResourceDetector,
                Resource,
            )
            from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
            from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415
            from opentelemetry.trace import SpanKind, Status, StatusCode  # noqa: PLC0415
            from opentelemetry.trace.propagation.tracecontext import (  # noqa: PLC0415
                TraceContextTextMapPropagator,
            )
        except ImportError as error:
            raise BadTracingError(
                f"OpenTelemetry is asked for and {error.name or 'a part of it'} is not installed: "
                "pip install 'genguard-webhook[otel]', or set OTEL_SDK_DISABLED=true"
            ) from None
        self._most: Final = _queue_size(environment)
        self._recorded = 0
        self._dropped = 0
        try:
            self._exporter: Final = _CountedExporter(OTLPSpanExporter())
            processor = BatchSpanProcessor(self._exporter, max_queue_size=self._most)
        except (ValueError, OSError) as error:
            raise BadTracingError(f"the variables OTEL_* cannot be followed: {error}") from error
        own = {SERVICE_VERSION: __version__}
        if not OTELResourceDetector().detect().attributes.get(SERVICE_NAME):
            own[SERVICE_NAME] = _SERVICE
        self._provider: Final = TracerProvider(
            resource=Resource.create(own), shutdown_on_exit=False
        )
        self._provider.add_span_processor(processor)
        self._tracer: Final = self._provider.get_tracer(_SERVICE, __version__)
        self._propagator: Final = TraceContextTextMapPropagator()
        self._kind: Final = SpanKind.SERVER
        self._failed: Final = Status(StatusCode.ERROR)
        # From here on it would log each failed export; _CountedExporter logs an episode once.
        logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)

    def reviewed(
        self,
        headers: Mapping[str, str],
        arrived: int,
        phase: Phase,
        reply: Reply,
        *,
        audit_only: bool,
    ) -> None:
        """Record an answered review that arrived at this Unix time, in nanoseconds."""
        attributes = partial(_attributes, reply.verdict, audit_only=audit_only)
        self._record(headers, arrived, phase, reply.status, attributes)

    def rejected(
        self, headers: Mapping[str, str], arrived: int, phase: Phase, reason: str, status: int
    ) -> None:
        """Record a review that was refused before its body was decoded."""
        attributes: dict[str, str | int | bool] = {
            "genguard.decision": "rejected",
            "genguard.edits": 0,
            "genguard.reason": reason,
        }
        self._record(headers, arrived, phase, status, lambda: attributes)

    def counts(self) -> list[tuple[tuple[str, ...], int]]:
        """How many spans were sent, failed to be sent, or had no room in the queue."""
        exporter = self._exporter
        return [
            (("sent",), exporter.sent),
            (("failed",), exporter.failed),
            (("dropped",), self._dropped),
        ]

    async def close(self) -> None:
        """Send the last spans. A collector that hangs is waited for CLOSE_SECONDS at most."""
        ending = threading.Thread(target=self._provider.shutdown, daemon=True)
        ending.start()
        await asyncio.to_thread(ending.join, CLOSE_SECONDS)

    def _record(
        self,
        headers: Mapping[str, str],
        arrived: int,
        phase: Phase,
        status: int,
        attributes: Callable[[], Mapping[str, str | int | bool]],
    ) -> None:
        """Make a span under that of the client, unless it is not sampled or has no room."""
        carrier = {"traceparent": headers.get("traceparent", "")}
        state = headers.get("tracestate", "")
        if state and len(state) <= _LONGEST_STATE:
            carrier["tracestate"] = state
        # An empty context: without one the propagator would take what is current in this task.
        parent = self._propagator.extract(carrier, context={})
        span = self._tracer.start_span(f"genguard {phase}", parent, self._kind, start_time=arrived)
        if not span.is_recording() or not span.get_span_context().trace_flags.sampled:
            return
        if self._recorded - self._exporter.taken >= self._most:
            self._dropped += 1
            return
        said = {"genguard.phase": phase.value, "http.response.status_code": status}
        span.set_attributes({**said, **attributes()})
        if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            span.set_status(self._failed)
        self._recorded += 1
        span.end(time.time_ns())


def _attributes(verdict: Verdict, *, audit_only: bool) -> dict[str, str | int | bool]:
    found: dict[str, str | int | bool] = {
        "genguard.decision": decision_of(verdict, audit_only=audit_only),
        "genguard.edits": sum(len(one.edits) for one in verdict.repairs),
    }
    if verdict.request is not None:
        wire, kind = verdict.request.wire, verdict.request.wire.resource
        names = {
            "genguard.operation": wire.operation,
            "genguard.resource": f"{kind.resource}.{kind.group}" if kind.group else kind.resource,
            "genguard.subresource": wire.sub_resource,
            "k8s.namespace.name": wire.namespace,
            "genguard.name": wire.name,
        }
        found |= {key: printable(value[:_LONGEST_NAME]) for key, value in names.items() if value}
        found["genguard.dry_run"] = bool(wire.dry_run)
    if verdict.skipped is not None:
        found["genguard.reason"] = verdict.skipped.value
    return found


class _CountedExporter:
    """A SpanExporter that counts what another one does, and logs an episode of failures once.

    Called by the thread of the BatchSpanProcessor alone.
    """

    def __init__(self, exporter: Any) -> None:
        self._exporter: Final = exporter
        self._fails = False
        self.taken = 0
        self.sent = 0
        self.failed = 0

    def export(self, spans: Sequence[Any]) -> Any:
        """Send spans. Never raises."""
        self.taken += len(spans)
        result, reason = None, "the collector did not take them"
        try:
            result = self._exporter.export(spans)
        except Exception as error:  # noqa: BLE001 - the thread must go on, whatever a library raises
            reason = type(error).__name__
        if result is not None and result.name == "SUCCESS":
            self.sent += len(spans)
            if self._fails:
                LOGGER.info("spans are exported again")
            self._fails = False
            return result
        self.failed += len(spans)
        if not self._fails:
            LOGGER.warning("spans not exported", extra={"facts": {"reason": reason}})
        self._fails = True
        return result

    def shutdown(self) -> None:
        """End the exporter."""
        self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Do nothing: no span is kept here."""
        del timeout_millis
        return True


def _queue_size(environment: Mapping[str, str]) -> int:
    text = environment.get("OTEL_BSP_MAX_QUEUE_SIZE", "").strip()
    if not text:
        return MOST_SPANS
    if not text.isascii() or not text.isdigit() or int(text) == 0:
        raise BadTracingError(f"OTEL_BSP_MAX_QUEUE_SIZE={printable(text)}: give a number above 0")
    return int(text)

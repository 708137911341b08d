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
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any, Final

from genguard.admission.review import Phase
from genguard.objects.served import resource_name
from genguard.objects.shown import printable
from genguard.review import Reply, ReviewResult
from webhook import __version__
from webhook.telemetry.logs import LOGGER
from webhook.telemetry.metrics import Metrics, decision_of

MOST_SPANS: Final = 1_024
"""Spans that wait for the exporter, each up to 8 KiB, unless OTEL_BSP_MAX_QUEUE_SIZE is set."""
CLOSE_SECONDS: Final = 2.0
"""How long the end of the server waits for the last spans."""
_PROTOCOL: Final = "http/protobuf"
_LONGEST_NAME: Final = 256


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
    spans = ExportedSpans()
    metrics.counts("genguard_spans_total", spans.counts)
    try:
        yield spans
    finally:
        await spans.close()


class ExportedSpans:
    """Makes the span of each review, and keeps those that wait for the exporter bounded."""

    def __init__(self) -> None:
        """Start the thread that exports. Raises BadTracingError."""
        # ruff: disable[PLC0415] - an optional extra, of megabytes: imported when it is asked for
        try:
            from opentelemetry import trace
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
            from opentelemetry.sdk import resources
            from opentelemetry.sdk.trace import TracerProvider, export
            from opentelemetry.trace.propagation import tracecontext
        except ImportError as error:
            raise BadTracingError(
                f"OpenTelemetry is asked for and {error.name or 'a part of it'} is not installed: "
                "pip install 'genguard-webhook[otel]', or set OTEL_SDK_DISABLED=true"
            ) from None
        # ruff: enable[PLC0415]
        self._recorded = self._dropped = 0
        try:
            self._most: Final = int(os.environ.get("OTEL_BSP_MAX_QUEUE_SIZE") or MOST_SPANS)
            self._exporter: Final = _CountedExporter(OTLPSpanExporter())
            processor = export.BatchSpanProcessor(self._exporter, max_queue_size=self._most)
        except (ValueError, OSError) as error:
            raise BadTracingError(f"the variables OTEL_* cannot be followed: {error}") from error
        own = resources.Resource({"service.name": "genguard", "service.version": __version__})
        given = resources.OTELResourceDetector().detect()
        self._provider: Final = TracerProvider(resource=own.merge(given), shutdown_on_exit=False)
        self._provider.add_span_processor(processor)
        self._tracer: Final = self._provider.get_tracer("genguard", __version__)
        self._propagator: Final = tracecontext.TraceContextTextMapPropagator()
        self._trace: Final = trace
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
        if (span := self._begin(headers, arrived, phase)) is not None:
            span.set_attributes(_attributes(reply.result, audit_only=audit_only))
            self._end(span, phase, reply.status)

    def rejected(
        self, headers: Mapping[str, str], arrived: int, phase: Phase, reason: str, status: int
    ) -> None:
        """Record a review that was refused before its body was decoded."""
        if (span := self._begin(headers, arrived, phase)) is not None:
            span.set_attributes({"genguard.decision": "rejected", "genguard.reason": reason})
            self._end(span, phase, status)

    def counts(self) -> list[tuple[tuple[str, ...], int]]:
        """How many spans were sent, failed to be sent, or had no room in the queue."""
        sent, failed = self._exporter.sent, self._exporter.failed
        return [(("sent",), sent), (("failed",), failed), (("dropped",), self._dropped)]

    async def close(self) -> None:
        """Send the last spans. A collector that hangs is waited for CLOSE_SECONDS at most."""
        ending = threading.Thread(target=self._provider.shutdown, daemon=True)
        ending.start()
        await asyncio.to_thread(ending.join, CLOSE_SECONDS)

    def _begin(self, headers: Mapping[str, str], arrived: int, phase: Phase) -> Any:
        """Make a span under that of the client; None where it is not sampled or has no room."""
        # An empty context: without one the propagator would take what is current in this task.
        parent = self._propagator.extract(headers, context={})
        kind = self._trace.SpanKind.SERVER
        span = self._tracer.start_span(f"genguard {phase}", parent, kind, start_time=arrived)
        if not span.is_recording():
            return None
        if self._recorded - self._exporter.taken >= self._most:
            self._dropped += 1
            return None
        return span

    def _end(self, span: Any, phase: Phase, status: int) -> None:
        span.set_attributes({"genguard.phase": phase.value, "http.response.status_code": status})
        if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            span.set_status(self._trace.StatusCode.ERROR)
        self._recorded += 1
        span.end(time.time_ns())


def _attributes(result: ReviewResult, *, audit_only: bool) -> dict[str, str | int | bool]:
    found: dict[str, str | int | bool] = {
        "genguard.decision": decision_of(result, audit_only=audit_only),
        "genguard.edits": sum(len(repair.edits) for repair in result.repairs),
    }
    if result.request is not None:
        wire, kind = result.request.wire, result.request.wire.resource
        names = {
            "genguard.operation": wire.operation,
            "genguard.resource": resource_name(kind.group, kind.resource),
            "genguard.subresource": wire.sub_resource,
            "k8s.namespace.name": wire.namespace,
            "genguard.name": wire.name,
        }
        found |= {key: printable(value[:_LONGEST_NAME]) for key, value in names.items() if value}
        found["genguard.dry_run"] = bool(wire.dry_run)
    if result.skipped is not None:
        found["genguard.reason"] = result.skipped.value
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
        fails = result is None or result.name != "SUCCESS"
        if fails:
            self.failed += len(spans)
        else:
            self.sent += len(spans)
        if fails and not self._fails:
            LOGGER.warning("spans not exported", extra={"fields": {"reason": reason}})
        self._fails = fails
        return result

    def shutdown(self) -> None:
        """End the exporter."""
        self._exporter.shutdown()

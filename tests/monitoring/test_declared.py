"""What a running server exports is what telemetry/declarations.py declares."""

from webhook.telemetry import declarations
from webhook.telemetry.declarations import every_metric

NEEDS_MORE = {
    declarations.HEALS.name,
    declarations.REPORT_WRITES.name,
    declarations.SPANS.name,
}
"""Metrics of --heal, --reports and OpenTelemetry, which the servers of these tests do not have."""


def test_a_server_exports_the_declared_metrics_and_no_other(exported: set[str]) -> None:
    declared = {metric.name for metric in every_metric()}
    assert exported <= declared
    assert declared - exported <= NEEDS_MORE

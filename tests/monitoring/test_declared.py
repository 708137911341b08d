"""What a running server exports is what telemetry/declarations.py declares."""

from webhook.telemetry import declarations
from webhook.telemetry.declarations import every_metric

_SUMMARIES = ("genguard_application_", "genguard_namespace_", "genguard_summaries_")
NEEDS_MORE = {
    declarations.HEALS.name,
    declarations.SPANS.name,
    *(metric.name for metric in every_metric() if metric.name.startswith(_SUMMARIES)),
}
"""Metrics of --heal, OpenTelemetry and --summary-metrics, which the servers of these
tests do not have."""


def test_a_server_exports_the_declared_metrics_and_no_other(exported: set[str]) -> None:
    declared = {metric.name for metric in every_metric()}
    assert exported <= declared
    assert declared - exported <= NEEDS_MORE

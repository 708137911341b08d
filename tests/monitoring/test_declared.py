"""What a running server exports is what telemetry/metrics.yaml declares."""

from webhook.telemetry.metrics import declared

_SUMMARIES = ("genguard_application_", "genguard_namespace_", "genguard_summaries_")
NEEDS_MORE = {
    "genguard_heals_total",
    "genguard_spans_total",
    *(name for name in declared() if name.startswith(_SUMMARIES)),
}
"""Metrics of --heal, OpenTelemetry and --summary-metrics, which the servers of these
tests do not have."""


def test_a_server_exports_the_declared_metrics_and_no_other(exported: set[str]) -> None:
    assert exported <= set(declared())
    assert set(declared()) - exported <= NEEDS_MORE

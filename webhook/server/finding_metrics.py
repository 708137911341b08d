"""Findings as metrics: by detector and severity, never by object or actor."""

from collections import Counter
from collections.abc import Iterator
from typing import Final

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

from webhook.admission.review import Phase
from webhook.detection.detectors import ALL
from webhook.detection.finding import Severity
from webhook.server.detecting import Detecting


class FindingMetrics:
    """A collector to register."""

    def __init__(self, detecting: Detecting) -> None:
        self._detecting: Final = detecting

    def collect(self) -> Iterator[Metric]:
        """Every detector and severity, also those with nothing to tell: alerts need the zero."""
        open_now = Counter(
            (finding.detector, finding.severity)
            for finding in self._detecting.findings()
            if finding.state != "resolved"
        )
        gauge = GaugeMetricFamily(
            "genguard_findings_open", "Findings now open.", labels=("detector", "severity")
        )
        for detector in ALL:
            for severity in Severity:
                labels = (detector.name, severity.value)
                gauge.add_metric(labels, open_now[detector.name, severity])
        yield gauge
        yield CounterMetricFamily(
            "genguard_detection_dropped",
            "Reviews, writes and findings that detection and tracking had no room for.",
            value=self._detecting.dropped + self._detecting.detection.dropped,
        )
        seen = self._detecting.detection.completeness
        yield CounterMetricFamily(
            "genguard_writes", "Updates whose outcome was seen.", value=seen.joined
        )
        incomplete = CounterMetricFamily(
            "genguard_incomplete_writes",
            "Updates of which a phase was not seen here: it went to another replica, or was not "
            "answered in time. Without an outcome a write may also have been refused.",
            labels=("missing",),
        )
        for phase in Phase:
            incomplete.add_metric((phase.value,), seen.missing.get(phase, 0))
        yield incomplete
        yield GaugeMetricFamily(
            "genguard_detection_objects",
            "Objects that detection remembers.",
            value=len(self._detecting.detection.history),
        )

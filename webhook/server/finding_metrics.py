"""Metrics of findings by detector and severity; objects and actors are no labels."""

from collections import Counter
from collections.abc import Iterator
from typing import Final

from prometheus_client.metrics_core import Metric

from genguard.admission.review import Phase
from genguard.detection.detectors import ALL
from genguard.detection.finding import Severity
from webhook.server.detecting import Detecting
from webhook.telemetry import declarations


class FindingMetrics:
    """Collects the metrics of findings, writes and remembered objects."""

    def __init__(self, detecting: Detecting) -> None:
        self._detecting: Final = detecting

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics; with a zero for detectors without findings, since alerts need it."""
        open_now = Counter(
            (finding.detector, finding.severity)
            for finding in self._detecting.findings()
            if finding.state != "resolved"
        )
        gauge = declarations.FINDINGS_OPEN.family()
        for detector in ALL:
            for severity in Severity:
                labels = (detector.name, severity.value)
                gauge.add_metric(labels, open_now[detector.name, severity])
        yield gauge
        dropped = declarations.DETECTION_DROPPED.family()
        dropped.add_metric((), self._detecting.dropped + self._detecting.detection.dropped)
        yield dropped
        replaced = declarations.SINK_REPLACED.family()
        for sink in self._detecting.sinks:
            replaced.add_metric((sink.name,), sink.replaced)
        yield replaced
        seen = self._detecting.detection.completeness
        writes = declarations.WRITES.family()
        writes.add_metric((), seen.joined)
        yield writes
        incomplete = declarations.INCOMPLETE_WRITES.family()
        for phase in Phase:
            incomplete.add_metric((phase.value,), seen.missing.get(phase, 0))
        yield incomplete
        objects = declarations.DETECTION_OBJECTS.family()
        objects.add_metric((), len(self._detecting.detection.history))
        yield objects

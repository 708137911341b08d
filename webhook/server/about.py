"""What this server says of itself to a probe: words, and nothing of any object."""

import platform
from collections.abc import Mapping
from datetime import UTC, datetime

from webhook import __version__
from webhook.detection.detection import Completeness
from webhook.telemetry.metrics import Metrics


def about(metrics: Metrics, store: str, seen: Completeness, costly: int) -> Mapping[str, str]:
    """Version, pod, kind of store, and when the last write was seen that was no dry run.

    `incomplete` is how many writes were seen in part, of how many; `costly`, how many
    matchConditions cost too much to evaluate.
    """
    last = metrics.last_review
    return {
        "version": __version__,
        "instance": platform.node() or "unknown",
        "store": store,
        "incomplete": f"{seen.incomplete}/{seen.joined}",
        "costly": str(costly),
        "last": f"{datetime.fromtimestamp(last, UTC):%FT%TZ}" if last else "never",
    }

"""Status updates that change nothing are counted, by resource."""

from typing import Any

import pytest

from genguard.detection.detection import Detection
from tests.unit.detection.story import Story


def counted(*steps: dict[str, Any]) -> dict[str, int]:
    story = Story(resource="deployments", found={"status": {"replicas": 1}})
    for at, step in enumerate(steps):
        story.play({"at": at, "by": "controller", **step})
    detection: Detection = story._detection
    detection.judge()
    return {kind.resource: count for kind, count in detection.unchanged_status_writes.items()}


@pytest.mark.parametrize(
    ("steps", "expected", "because"),
    [
        ([{"to": "status", "asks": {"status": {"replicas": 1}}}], {"deployments": 1}, "no change"),
        ([{"to": "status", "asks": {"status": {"replicas": 2}}}], {}, "a change"),
        (
            [{"to": "status", "asks": {"metadata": {"labels": {"a": "b"}}}}],
            {},
            "metadata may be written through /status",
        ),
        ([{"asks": {}}], {}, "no write of status"),
        ([{"to": "status", "asks": {}, "refused": True}], {}, "it was not stored"),
        ([{"to": "status", "asks": {}}] * 3, {"deployments": 3}, "each of them"),
        (
            [
                {
                    "to": "status",
                    "asks": {"status": {"replicas": 2}},
                    "left": {"status": {"replicas": 1}},
                }
            ],
            {"deployments": 1},
            "a webhook took the change away, so the write was for nothing",
        ),
    ],
)
def test_a_status_update_that_changes_nothing_is_counted(steps, expected, because):
    assert counted(*steps) == expected, because

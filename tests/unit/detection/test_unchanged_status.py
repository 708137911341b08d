"""Status updates that change nothing are counted, by resource."""

from genguard.detection.detection import Detection
from tests.cases_loader import Case, table
from tests.unit.detection.story import Story


@table("facts/unchanged.yaml", "steps", "counted")
def test_a_status_update_that_changes_nothing_is_counted(case: Case) -> None:
    story = Story(resource="deployments", found={"status": {"replicas": 1}})
    for at, step in enumerate(case["steps"]):
        story.play({"at": at, "by": "controller", **step})
    detection: Detection = story._detection
    detection.judge()
    counts = {kind.resource: one for kind, one in detection.unchanged_status_writes.items()}
    assert counts == ({"deployments": case["counted"]} if case["counted"] else {}), case.because

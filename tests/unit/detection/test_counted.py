"""What detection counts: status updates for nothing, and how controllers raise the number."""

from genguard.detection.questions.numbers import HOW
from tests.cases_loader import Case, table
from tests.unit.detection.story import Story


@table("counted.yaml", "object", "steps", "unchanged", "writer")
def test_what_is_counted_by_resource_and_by_writer(case: Case):
    story = Story(resource="deployments", found=case["object"])
    for step in case["steps"]:
        story.play(step)
    unchanged = story.detection.unchanged_status_writes
    found = {kind.resource: count for kind, count in unchanged.items()}
    assert found == case.get("unchanged", {}), case.because
    by_writer = {
        (one.user, one.group, one.resource): {how: getattr(one, how) for how in HOW}
        for one in story.detection.reporting.writers()
    }
    counts = {**dict.fromkeys(HOW, 0), **case.get("writer", {})}
    expected = {("operator", "apps", "deployments"): counts} if "writer" in case.values else {}
    assert by_writer == expected, case.because

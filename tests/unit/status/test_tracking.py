"""What becomes of an object over its writes: tests/cases/status/tracking."""

from typing import Any

from tests.cases_loader import Case, table
from tests.unit.status.story import Story
from webhook.status.tracking import Tracked


def told(found: Tracked | None) -> dict[str, Any] | None:
    if found is None:
        return None
    state = found.state
    return {
        "generation": state.generation,
        "observed": state.observed,
        "reconciled": state.reconciled,
        "ready": state.ready,
        "settled": state.settled,
        "health": state.health.value,
        "flips": len(state.flips),
        "waiting": found.waiting,
    }


@table("status/tracking", "resource", "steps", "measured")
def test_what_is_tracked_is_what_the_story_says(case: Case) -> None:
    story = Story(case.get("resource", "deployments"))
    for number, step in enumerate(case["steps"], start=1):
        story.play(step)
        if "is" in step:
            expected, found = step["is"], told(story.now)
            if expected is not None and found is not None:
                found = {key: found[key] for key in expected}
            assert found == expected, f"step {number}: {case.because}"
    counts = story.counts
    measured = {
        name: {"count": sum(found.counts), "seconds": found.sum}
        for name, found in (("observation", counts.observation), ("reconcile", counts.reconcile))
        if sum(found.counts)
    }
    assert measured == case.get("measured", {}), case.because
    assert_counted_right(story)


def assert_counted_right(story: Story) -> None:
    """The running counts are what a walk over all objects gives."""
    for kind, counts in story.tracking.tally:
        of_kind = [one.state for one in story.tracking.objects() if one.kind == kind]
        for health, count in counts.healths.items():
            assert count == sum(one.health is health for one in of_kind)

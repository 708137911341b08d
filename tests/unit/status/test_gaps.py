"""Since when objects are behind their generation, and which of them are left out."""

import pytest

from genguard.status.tracking import UNCONFIRMED_SECONDS
from tests.unit.status.story import Story

UP = {
    "observedGeneration": 1,
    "replicas": 1,
    "updatedReplicas": 1,
    "readyReplicas": 1,
    "availableReplicas": 1,
}


def settled() -> Story:
    story = Story()
    story.play({"at": 0, "is_there": {"generation": 1, "spec": {"replicas": 1}, "status": UP}})
    story.play({"at": 1, "watched": -1})
    return story


def test_an_object_that_is_observed_has_no_gap():
    assert settled().counts.oldest_gap is None


def test_a_gap_begins_with_the_generation_that_is_not_observed_and_ends_with_its_observation():
    story = settled()
    empty = story.tracking.bytes
    story.play({"at": 10, "unseen_spec": {"replicas": 2}})
    story.play({"at": 10, "watched": -1})
    assert story.counts.oldest_gap == 10.0
    story.play({"at": 20, "unseen_spec": {"replicas": 3}})
    story.play({"at": 20, "watched": -1})
    assert story.counts.oldest_gap == 10.0, "the controller has observed neither"
    story.play({"at": 30, "unseen_status": {**UP, "observedGeneration": 2}})
    story.play({"at": 30, "watched": -1})
    assert story.counts.oldest_gap == 20.0, "the controller is at work: the newer one counts"
    story.play({"at": 40, "unseen_status": {**UP, "observedGeneration": 3, "replicas": 3}})
    story.play({"at": 40, "watched": -1})
    assert story.counts.oldest_gap is None
    story.tracking.forget("object-1")
    assert story.tracking.bytes == 0 < empty


def test_a_generation_that_nobody_has_seen_stored_makes_no_gap():
    """Another webhook has refused it, and no watch says so."""
    story = Story()
    story.play({"at": 0, "create": {"spec": {"replicas": 1}}})
    story.play({"at": 1, "status": UP})
    story.play({"at": 2, "refused_spec": {"replicas": 2}})
    story.play({"at": 3 + UNCONFIRMED_SECONDS, "quiet": True})
    assert story.counts.behind == 1
    assert story.counts.oldest_gap is None


def test_an_object_that_is_deleted_leaves_no_gap():
    story = settled()
    story.play({"at": 10, "unseen_spec": {"replicas": 2}})
    story.play({"at": 10, "watched": -1})
    story.tracking.forget("object-1")
    assert story.counts.oldest_gap is None
    assert story.tracking.bytes == 0


@pytest.mark.parametrize(("resource", "has"), [("deployments", True), ("widgets", False)])
def test_only_of_built_in_kinds_the_status_subresource_is_known_at_once(resource, has):
    story = Story(resource)
    story.play({"at": 0, "is_there": {"spec": {"a": 1}}})
    story.play({"at": 1, "watched": -1})
    assert story.counts.has_status_subresource is has


def test_a_custom_resource_whose_status_is_written_has_a_status_subresource():
    story = Story("widgets")
    story.play({"at": 0, "is_there": {"spec": {"a": 1}}})
    story.play({"at": 1, "status": {"observedGeneration": 1}})
    assert story.counts.has_status_subresource

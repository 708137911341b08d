"""Since when objects are behind their generation, and which of them are left out."""

import pytest

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
    return story


def test_an_object_that_is_observed_has_no_gap():
    assert settled().counts.oldest_gap is None


def test_a_gap_begins_with_the_generation_that_is_not_observed_and_ends_with_its_observation():
    story = settled()
    story.play({"at": 10, "spec": {"replicas": 2}})
    assert story.counts.oldest_gap == 10.0
    story.play({"at": 20, "spec": {"replicas": 3}})
    assert story.counts.oldest_gap == 10.0, "the controller has observed neither"
    story.play({"at": 30, "status": {**UP, "observedGeneration": 2}})
    assert story.counts.oldest_gap == 20.0, "the controller is at work: the newer one counts"
    story.play({"at": 40, "status": {**UP, "observedGeneration": 3, "replicas": 3}})
    assert story.counts.oldest_gap is None


def test_an_object_that_is_deleted_leaves_no_gap():
    story = settled()
    story.play({"at": 10, "spec": {"replicas": 2}})
    story.tracking.forget("object-1")
    assert story.counts.oldest_gap is None


@pytest.mark.parametrize(("resource", "has"), [("deployments", True), ("widgets", False)])
def test_only_of_built_in_kinds_the_status_subresource_is_known_at_once(resource, has):
    story = Story(resource)
    story.play({"at": 0, "is_there": {"spec": {"a": 1}}})
    assert story.counts.has_status_subresource is has


def test_a_custom_resource_whose_status_is_written_has_a_status_subresource():
    story = Story("widgets")
    story.play({"at": 0, "is_there": {"spec": {"a": 1}}})
    assert not story.counts.has_status_subresource
    written = {"manager": "m", "operation": "Update", "subresource": "status"}
    metadata = {**story.stored[-1]["metadata"], "managedFields": [written]}
    story.stored[-1]["metadata"] = metadata | {"resourceVersion": "12"}
    story.play({"at": 1, "watched": -1})
    assert story.counts.has_status_subresource

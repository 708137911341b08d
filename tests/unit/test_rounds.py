"""Reviews that know of each other: phases, rounds, and what the cluster says of itself."""

import pytest

from genguard.admission.review import Phase
from genguard.generation import CustomResource, StatusSubresource
from genguard.review_setup import GenerationPatch, ReviewOptions, ReviewSetup
from tests.reviews import ask, clobbered, counted, make_dependencies, make_review


def test_a_reinvoked_call_repeats_what_it_said_and_mends_no_second_time():
    dependencies = make_dependencies()
    first = ask(clobbered(), dependencies, now=0.0)
    again = clobbered()
    again["request"]["object"] = first.object
    second = ask(again, dependencies, now=1.0)
    assert second.patch == []
    assert second.annotations == first.annotations != {}


def test_a_reinvoked_call_mends_what_a_later_webhook_broke_and_says_the_same():
    dependencies = make_dependencies()
    first = ask(clobbered(), dependencies, now=0.0)
    second = ask(clobbered(), dependencies, now=1.0)
    assert second.patch == first.patch
    assert second.annotations == first.annotations


def test_round_1_that_mends_more_says_what_round_0_said():
    """The API server refuses a second value for a key, and with it the whole patch."""
    dependencies = make_dependencies()
    stored = {"observedGeneration": 3, "conditions": [{"type": "Ready", "observedGeneration": 3}]}
    lost = [{**stored, "observedGeneration": 0}, {"conditions": [{"type": "Ready"}]}]
    asked = [
        make_review(new={"status": one}, old={"status": stored}, subresource="status")
        for one in lost
    ]
    first, second = ask(asked[0], dependencies), ask(asked[1], dependencies, now=1.0)
    assert len(first.patch) == 1
    assert len(second.patch) == 2
    assert second.annotations == first.annotations


def test_a_new_intent_ends_what_an_earlier_write_was_told():
    dependencies = make_dependencies()
    ask(counted(), dependencies, now=0.0)
    same = make_review(new={"spec": {"replicas": 1}}, old={"spec": {"replicas": 1}})
    ask(same, dependencies, phase=Phase.INTENT, now=1.0)
    assert ask(same, dependencies, now=2.0).annotations == {}


@pytest.mark.parametrize(
    ("mode", "connected", "patches"),
    [
        (GenerationPatch.ALWAYS, False, True),
        (GenerationPatch.ALWAYS, True, True),
        (GenerationPatch.NEVER, False, False),
        (GenerationPatch.NEVER, True, False),
        (GenerationPatch.AUTO, False, True),
        (GenerationPatch.AUTO, True, False),
    ],
)
def test_generation_is_patched_unless_a_connected_server_overrides_it(mode, connected, patches):
    setup = ReviewSetup(ReviewOptions(generation_patch=mode))
    if connected:
        setup.learn("1.36", ())
    assert bool(ask(counted(), setup.dependencies).patch) is patches


def test_what_the_cluster_says_of_itself_wins_over_a_file():
    said, learnt = (
        CustomResource("example.org", "v1", "widgets", "Widget", status)
        for status in (StatusSubresource.PRESENT, StatusSubresource.ABSENT)
    )
    setup = ReviewSetup(ReviewOptions(custom_resources=(said,)))
    asked = make_review(
        "UPDATE", "widgets", {"status": {"a": 1}}, {"metadata": {"generation": 1}, "status": {}}
    )
    assert ask(asked, setup.dependencies).result.prediction.step == 0
    setup.learn("v1.36.3", (learnt,))
    assert ask(asked, setup.dependencies).result.prediction.step == 1
    assert setup.knows("example.org", "widgets")
    assert setup.knows("", "pods")
    assert not setup.knows("example.org", "gadgets")


def test_learning_keeps_the_intents_that_are_on_their_way():
    setup = ReviewSetup(ReviewOptions())
    intent = make_review(new={"status": {"observedGeneration": 5}}, old={}, subresource="status")
    ask(intent, setup.dependencies, phase=Phase.INTENT)
    setup.learn("1.36", ())
    answer = ask(make_review(new={}, old={}, subresource="status"), setup.dependencies)
    assert answer.object["status"] == {"observedGeneration": 5}


def test_what_is_put_back_is_no_change_that_counts():
    """Without a status subresource status counts: a clobber that is mended must not."""
    absent = CustomResource("example.org", "v1", "widgets", "Widget", StatusSubresource.ABSENT)
    stored = {"metadata": {"generation": 4}, "status": {"observedGeneration": 3}}
    asked = make_review("UPDATE", "widgets", {**stored, "status": {}}, stored)
    dependencies = make_dependencies(generation_patch=GenerationPatch.ALWAYS, custom=[absent])
    answer = ask(asked, dependencies)
    assert answer.result.prediction.step == 0
    assert answer.object["metadata"]["generation"] == 4
    assert answer.object["status"] == {"observedGeneration": 3}
    audited = ask(asked, make_dependencies(audit_only=True, custom=[absent]))
    assert audited.result.prediction.step == 1, "nothing is mended there, so it does count"

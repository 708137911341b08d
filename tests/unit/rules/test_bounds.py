"""Rules and answers at their limits: what is refused, what is bounded, what wins."""

import pytest

from genguard.admission.review import Phase
from genguard.review_setup import GenerationPatch, ReviewOptions, ReviewSetup
from genguard.rules.shadow_generation import NotShadowableError
from tests.reviews import ask, changes, judge, make_review


def status(new, old, **arguments):
    return make_review(new={"status": new}, old={"status": old}, subresource="status", **arguments)


@pytest.mark.parametrize(
    ("resource", "reason"),
    [
        (
            "deployments.apps",
            "keeps metadata.generation for it (an annotation would even move it); leave it out",
        ),
        ("replicasets.apps", "the API server keeps metadata.generation for it; leave it out"),
        ("pods", "the API server keeps metadata.generation for it"),
        ("csidrivers.storage.k8s.io", "the API server keeps metadata.generation for it"),
        ("widgets.example.org", "custom resources have one of their own"),
        ("deployments", "Names are as kubectl api-resources shows them"),
        ("", "not a built-in resource"),
    ],
)
def test_a_resource_that_cannot_have_a_shadow_generation_is_refused_with_the_reason(
    resource, reason
):
    with pytest.raises(NotShadowableError) as raised:
        ReviewSetup(ReviewOptions(shadow_resources=(resource,)))
    assert reason in str(raised.value)
    assert repr(resource) in str(raised.value)


def test_whether_a_kind_keeps_a_generation_depends_on_the_server():
    ReviewSetup(ReviewOptions(shadow_resources=("pods",), server_version="1.32"))
    name = "horizontalpodautoscalers.autoscaling"
    ReviewSetup(ReviewOptions(shadow_resources=(name,), server_version="1.36"))
    with pytest.raises(NotShadowableError):
        ReviewSetup(ReviewOptions(shadow_resources=(name,), server_version="1.37"))


@pytest.mark.parametrize("stored", ["9" * 5_000, "-1", "٣", "1.5", ""])
def test_a_stored_annotation_of_any_text_never_stops_a_review(stored):
    annotations = {"genguard.io/generation": stored}
    asked = make_review(
        resource="configmaps",
        new={"data": {"a": "1"}},
        old={"metadata": {"annotations": annotations}},
    )
    answer = ask(asked, judge(shadow=("configmaps",)))
    assert answer.object["metadata"]["annotations"]["genguard.io/generation"] == "1"


def test_the_intent_wins_over_what_was_stored():
    """Both rules would act on the place; the requester's own value is the newer one."""
    dependencies = judge()
    ask(status({"observedGeneration": 5}, {"observedGeneration": 4}), dependencies,
        phase=Phase.INTENT)  # fmt: skip
    answer = ask(status({}, {"observedGeneration": 4}), dependencies)
    assert changes(answer) == {"/status/observedGeneration": 5}
    assert answer.annotations == {"restore-intent": "set status.observedGeneration=5"}


def test_all_rules_together_mend_their_own_places():
    dependencies = judge(generation_patch=GenerationPatch.ALWAYS, shadow=("services",))
    asked = make_review(
        resource="services",
        new={"metadata": {"generation": 9}, "spec": {"a": 1}},
        old={"spec": {"a": 2}},
    )
    answer = ask(asked, dependencies)
    assert changes(answer) == {
        "/metadata/generation": 0,
        "/metadata/annotations": {"genguard.io/generation": "1"},
    }
    assert set(answer.annotations) == {"assign-generation", "shadow-generation"}


def test_an_annotation_names_twenty_edits_and_counts_the_rest():
    many = [{"type": f"T{number}", "observedGeneration": 3} for number in range(500)]
    cleared = [{"type": one["type"]} for one in many]
    answer = ask(status({"conditions": cleared}, {"conditions": many}))
    assert len(answer.patch) == 500
    (told,) = answer.annotations.values()
    assert told.endswith(" and 480 more")
    assert len(told) < 2_000


def test_conditions_beyond_all_measure_are_left_alone():
    many = [{"type": "A", "observedGeneration": 3}] * 1_001
    answer = ask(status({"conditions": [{"type": "A"}] * 1_001}, {"conditions": many}))
    assert answer.patch == []


def test_long_names_of_conditions_are_not_remembered_and_the_value_beside_them_is():
    dependencies = judge()
    long = {
        "observedGeneration": 5,
        "conditions": [{"type": "n" * 20_000, "observedGeneration": 5}],
    }
    ask(status(long, {}), dependencies, phase=Phase.INTENT)
    answer = ask(status({}, {"conditions": [{"type": "n" * 20_000}]}), dependencies)
    assert answer.patch == [{"op": "add", "path": "/status/observedGeneration", "value": 5}]


@pytest.mark.parametrize("containers", [5, "ab", [5], ["a"], {"a": 1}, [None], True])
def test_a_resize_of_what_is_no_pod_is_still_answered(containers):
    asked = make_review(
        resource="pods",
        subresource="resize",
        new={"spec": {"containers": containers}},
        old={"spec": {"containers": [{"name": "a"}]}},
    )
    assert ask(asked).verdict.prediction.step == 1

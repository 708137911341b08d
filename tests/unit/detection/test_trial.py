"""A step is tried on the last writes before it is shown: what it ends, and what it costs."""

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from genguard.detection.detection import Detection
from genguard.detection.finding import Finding, FoundObject, Trial
from genguard.detection.fix import NOT_KEPT, Installation, Trials, _condition, fix
from genguard.objects.selectors import Truth
from tests.unit.detection.builders import INTENT, MUTATE, OUTCOME, feed, reviewed, update
from tests.unit.detection.evaluating import CONDITIONS
from tests.unit.detection.test_fix import finding

WEBHOOK = "webhook mmm/old.example.org certain"


def on_status(before, asked, left=None, **more):
    each = ({"status": one} for one in (before, asked, asked if left is None else left))
    return (*each, {"subresource": "status", **more})


def on_spec(before, asked, left=None, **more):
    each = ({"spec": one} for one in (before, asked, asked if left is None else left))
    return (*each, more)


def histories(*writes: Any):
    """What History keeps of these writes; objects of several names are several."""
    detection = Detection()
    for number, (before, asked, left, more) in enumerate(writes):
        for phase, shown in ((INTENT, asked), (MUTATE, left), (OUTCOME, left)):
            review = update(shown, before, str(number + 1), **more)
            for key in ("object", "oldObject"):
                review["request"][key]["metadata"]["uid"] = f"uid of {more.get('name')}"
            feed(detection, phase, review, float(number))
    detection.finish(float(len(writes)))
    return detection.history.snapshot()


def about(kept, **values) -> Finding:
    """A finding about the object that was written first."""
    key = next(iter(kept.values())).writes[0].object
    return structs.replace(finding(values), object=FoundObject(**structs.asdict(key)))


CLOBBERED = {"detector": "status-clobbered", "subresource": "status", "actors": [WEBHOOK]}
PHASE = {**CLOBBERED, "paths": ["/status/phase"]}
UNSTABLE = {"detector": "unstable-mutation", "paths": ["/spec/called"], "actors": [WEBHOOK]}
FIGHT = {"detector": "spec-fight", "paths": ["/spec/replicas"]}


@pytest.mark.parametrize(
    ("because", "writes", "found", "title", "trial"),
    [
        (
            "each status write in which it changes the field would pass it by",
            [on_status({"n": 1}, {"n": 2, "phase": "A"}, {"n": 2})] * 2,
            PHASE,
            "Do not call old.example.org for writes of the status",
            Trial(2, 2),
        ),
        (
            "what else it changes in these writes is named: nobody would change it any more",
            [on_status({}, {"phase": "A", "n": 2}, {"n": 3})],
            PHASE,
            "Do not call old.example.org for writes of the status",
            Trial(1, 1, ("status.n in these writes",)),
        ),
        (
            "the condition is for the whole kind, so what it does to other objects is named too",
            [
                on_status({}, {"phase": "A"}, {}),
                on_status({}, {"size": 1}, {"size": 2}, name="other"),
            ],
            PHASE,
            "Do not call old.example.org for writes of the status",
            Trial(1, 1, ("status.size in writes of other objects",)),
        ),
        (
            "a write that it leaves as it is says nothing about the step",
            [on_status({}, {"phase": "A"}, {}), on_status({}, {"phase": "B"})],
            PHASE,
            "Do not call old.example.org for writes of the status",
            Trial(1, 1),
        ),
        (
            "its first call changes what was left by an earlier write: once is too often",
            [on_spec({"called": 1, "n": 1}, {"called": 1, "n": 2}, {"called": 2, "n": 2})],
            UNSTABLE,
            "Do not call old.example.org for writes of this object",
            Trial(1, 1),
        ),
        (
            "it sets what was absent, and only its second call changes that",
            [on_spec({"n": 1}, {"n": 2}, {"called": 1, "n": 2})],
            UNSTABLE,
            "Call old.example.org once for each write",
            Trial(1, 1),
        ),
        (
            "either may leave the field to the other",
            [
                on_spec({"replicas": 1}, {"replicas": 2}, user="a"),
                on_spec({"replicas": 2}, {"replicas": 1}, user="b"),
            ],
            {**FIGHT, "actors": ["user a certain", "user b certain"]},
            "Decide who owns spec.replicas",
            Trial(2, 2),
        ),
        (
            "nothing of its writes is remembered",
            [on_spec({"other": 1}, {"other": 2}, user="a")],
            {**FIGHT, "actors": ["user a certain", "user b certain"]},
            "Decide who owns spec.replicas",
            NOT_KEPT,
        ),
        (
            "a field that another one writes too goes on to be fought over",
            [
                on_spec({"replicas": 1, "image": "a"}, {"replicas": 2, "image": "b"}, user="a"),
                on_spec({"replicas": 2, "image": "b"}, {"replicas": 1, "image": "b"}, user="b"),
                on_spec({"replicas": 1, "image": "b"}, {"replicas": 1, "image": "a"}, user="b"),
            ],
            {**FIGHT, "actors": ["user a certain", "user b certain"]},
            "Decide who owns spec.replicas",
            Trial(1, 2),
        ),
        (
            "a program is not changed in thought",
            [on_status({}, {"phase": "A"})],
            {**PHASE, "actors": ["user old-operator certain"]},
            "Fix old-operator",
            Trial(not_tried="it changes a program"),
        ),
    ],
)
def test_a_step_is_tried_on_the_last_writes(because, writes, found, title, trial):
    kept = histories(*writes)
    steps = fix(about(kept, **found), histories=kept)
    tried = {one.title: one.trial for one in steps}
    assert [one for one in tried if one.startswith(title)], (because, list(tried))
    assert next(each for one, each in tried.items() if one.startswith(title)) == trial, because


def test_a_step_that_would_not_have_ended_all_comes_last():
    kept = histories(
        on_status({"observedGeneration": 1}, {"observedGeneration": 2}, {}),
        on_status({"observedGeneration": 2}, {"observedGeneration": 3}, {"observedGeneration": 2}),
    )
    values = {"detector": "observed-generation-cleared", "paths": ["/status/observedGeneration"]}
    found = about(kept, **{**CLOBBERED, **values})
    steps = fix(found, (), Installation(False, "genguard install"), kept)
    assert [one.trial.text.split(":")[0] for one in steps] == ["Ends it", "Not tried", "Ends it"]
    assert (steps[-1].title, steps[-1].trial) == ("Let genguard restore the value", Trial(1, 2))


def test_how_a_trial_is_said():
    assert Trial(2, 2).text == "Ends it: 2 of 2 of the last writes."


@given(
    st.sampled_from(["status", "object", "kind"]),
    st.sampled_from(["", "status", "scale"]),
    st.sampled_from(["thing", "other"]),
)
def test_the_condition_of_a_step_leaves_out_what_the_trial_says(scope, subresource, name):
    found = structs.replace(
        finding(PHASE), object=FoundObject("apps", "v1", "deployments", "default", "thing", "")
    )
    condition = _condition(found, scope)["expression"]
    request = reviewed(update({}, {}, subresource=subresource, name=name), MUTATE).request
    is_called = CONDITIONS.evaluate([condition], request)[condition] is Truth.TRUE
    write = SimpleNamespace(subresource=subresource, object=SimpleNamespace(name=name))
    assert Trials(found, {})._leaves_out(scope, write) is not is_called

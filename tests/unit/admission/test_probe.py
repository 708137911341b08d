"""A probe is answered, in every phase, and nothing else ever is."""

import json

import pytest

from genguard.admission.probe import PROBE, answer, read_answers
from genguard.admission.review import Phase
from genguard.review import review
from genguard.review_setup import ReviewOptions, ReviewSetup
from tests.reviews import make_review

VALUE = "0123456789abcdef"
TEMPLATE = {"apiVersion": "v1", "kind": "PodTemplate"}


def sent(annotations, *, dry_run=True, operation="CREATE"):
    new = TEMPLATE | {"metadata": {"name": "probe", "annotations": annotations}}
    objects = {"old": new} if operation == "DELETE" else {"new": new}
    made = make_review(operation, **objects)
    made["request"]["dryRun"] = dry_run
    return json.dumps(made).encode()


def warnings(body, phase=Phase.MUTATE, **options):
    said = {"version": "1.2.3", "last": "not a word"}
    setup = ReviewSetup(ReviewOptions(**options))
    setup.describe_server(lambda: said)
    reply = review(body, phase, setup.dependencies, 0.0)
    assert reply.status == 200
    return json.loads(reply.body)["response"].get("warnings")


@pytest.mark.parametrize("phase", Phase)
@pytest.mark.parametrize(("audit_only", "mode"), [(True, "audit-only"), (False, "enforcing")])
def test_each_phase_says_that_it_has_seen_it_and_who_it_is(phase, audit_only, mode):
    (told,) = warnings(sent({PROBE: VALUE}), phase, audit_only=audit_only)
    assert told == f"genguard-probe {VALUE} phase={phase} mode={mode} version=1.2.3"
    assert len(told) <= 256, "longer ones are cut: apiserver pkg/endpoints/filters/warning.go"
    seen = read_answers(["something else", told], VALUE)
    assert seen[phase] == {"mode": mode, "version": "1.2.3"}


@pytest.mark.parametrize(
    ("body", "because"),
    [
        (sent({PROBE: VALUE}, dry_run=False), "a real write is nobody's probe"),
        (sent({}), "no annotation"),
        (sent({PROBE: "x y"}), "contents of objects are never repeated"),
        (sent({PROBE: VALUE * 3}), "nor long ones"),
        (sent({PROBE: 7}), "no text"),
        (sent([]), "no annotations at all"),
        (sent({PROBE: VALUE}, operation="DELETE"), "no object is sent"),
    ],
)
def test_nothing_else_is_answered(body, because):
    assert warnings(body) is None, because


def test_the_answer_to_another_probe_is_no_answer():
    told = answer(VALUE, Phase.INTENT, {})
    assert read_answers([told], "f" * 16) == {}
    assert set(read_answers([told], VALUE)) == {"intent"}

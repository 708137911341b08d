"""Which MutatingAdmissionPolicies can have acted on a write, and what they visibly set."""

import pytest

from genguard.detection.matching import Matched, read_policies
from genguard.objects.selectors import Truth
from tests.cases_loader import table
from tests.unit.detection.policies import apply, binding, patch, policy, rule

WRITE = Matched("apps", "v1", "deployments", "", "UPDATE", "shop", "web", {"a": "b"}, {})
YES, NO, PERHAPS = Truth.TRUE, Truth.FALSE, Truth.UNKNOWN


def named(value):
    return {"matchLabels": {"kubernetes.io/metadata.name": value}}


def test_one_binding_of_several_is_enough():
    nowhere = binding(matchResources={"namespaceSelector": named("bank")})
    (found,) = read_policies([policy(), nowhere, binding()])
    assert found.covers(WRITE) is YES


def test_without_a_binding_a_policy_never_acts_and_a_binding_needs_its_policy():
    assert read_policies([policy()]) == ()
    assert read_policies([binding()]) == ()
    assert read_policies([policy("a"), binding("b")]) == ()


def test_every_version_of_the_api_reads_alike():
    both = [
        {**one, "apiVersion": "admissionregistration.k8s.io/v1alpha1"}
        for one in (policy(), binding())
    ]
    assert read_policies(both) == read_policies([policy(), binding()])


def test_validating_policies_and_other_documents_are_passed_over():
    validating = {**policy(), "kind": "ValidatingAdmissionPolicy"}
    assert read_policies([validating, binding(), None, "text", {"kind": "Pod"}]) == ()


@pytest.mark.parametrize(
    ("kind", "reference", "covers", "because"),
    [
        ({"kind": "ConfigMap"}, {"name": "p"}, PERHAPS, "what the parameter says is not known"),
        ({"kind": "ConfigMap"}, None, YES, "params is null"),
        (None, {"name": "p"}, YES, "without a paramKind the reference is ignored"),
    ],
)
def test_a_parameter_cannot_be_resolved(kind, reference, covers, because):
    spec = {"paramKind": kind} if kind else {}
    (found,) = read_policies([policy(**spec), binding(paramRef=reference)])
    assert found.covers(WRITE) is covers, because


@table("policies/sets.yaml", "apply", "patch", "pointer", "sets")
def test_a_mutation_visibly_sets_the_fields_that_it_names(case):
    mutation = apply(case["apply"]) if case.get("apply") else patch(case["patch"])
    (found,) = read_policies([policy("pins", mutation), binding()])
    assert found.sets(case["pointer"]) is case["sets"], case.because


@pytest.mark.parametrize(
    ("rules", "is_exact"),
    [
        ([], True),
        ([rule(apiVersions=["v1"])], True),
        ([rule(apiVersions=["v1beta1"])], False),
        ([rule("pods")], False),
    ],
)
def test_conditions_see_the_version_that_a_rule_names(rules, is_exact):
    (found,) = read_policies([policy(constraints={"resourceRules": rules}), binding()])
    assert found.is_exact(WRITE) is is_exact


def test_what_an_api_server_would_not_take_is_read_as_far_as_it_goes():
    """A file may hold anything: no name, no expression."""
    nameless = {"kind": "MutatingAdmissionPolicy", "spec": {"matchConditions": [{}]}}
    (found,) = read_policies([nameless, {"kind": "MutatingAdmissionPolicyBinding"}])
    assert (found.name, found.conditions, found.text) == ("", ("",), "")


def test_its_text_is_every_expression_on_a_line_of_its_own():
    variables = [{"name": "held", "expression": "Object.spec{replicas: 2}"}]
    (found,) = read_policies(
        [
            policy("a", apply("Object{spec: variables.held}"), patch("3"), variables=variables),
            binding("a"),
        ]
    )
    lines = [line for line in found.text.splitlines() if line]
    assert lines == ["Object.spec{replicas: 2}", "Object{spec: variables.held}", "3"]
    assert found.sets("/spec/replicas")

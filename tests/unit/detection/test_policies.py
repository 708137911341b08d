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


@pytest.mark.parametrize(
    ("constraints", "covers", "because"),
    [
        ({"resourceRules": [rule()]}, YES, "every operation of deployments"),
        ({"resourceRules": [rule("pods"), rule()]}, YES, "one of several rules"),
        ({"resourceRules": [rule("deployments/status")]}, NO, "another subresource"),
        ({"resourceRules": [rule("*/*")]}, YES, "everything"),
        ({"resourceRules": [rule(operations=["CREATE"])]}, NO, "another operation"),
        ({"resourceRules": [rule(operations=["CREATE", "UPDATE"])]}, YES, "both"),
        ({"resourceRules": [rule(apiGroups=["batch"])]}, NO, "another group"),
        ({"resourceRules": [rule(scope="Cluster")]}, NO, "the object has a namespace"),
        ({"resourceRules": [rule(resourceNames=["web"])]}, YES, "by its name"),
        ({"resourceRules": [rule(resourceNames=["other"])]}, NO, "another name"),
        ({"resourceRules": [rule(resourceNames=[])]}, YES, "an empty list is every name"),
        ({"resourceRules": [rule(apiVersions=["v1beta1"])]}, YES, "Equivalent is the default"),
        (
            {"resourceRules": [rule(apiVersions=["v1beta1"])], "matchPolicy": "Exact"},
            NO,
            "asked for exactly",
        ),
        (
            {"resourceRules": [rule("*/*", "*")], "excludeResourceRules": [rule()]},
            NO,
            "excluded again",
        ),
        (
            {
                "resourceRules": [rule()],
                "excludeResourceRules": [rule(resourceNames=["other"])],
            },
            YES,
            "another name is excluded",
        ),
        ({"resourceRules": [rule()], "objectSelector": {"matchLabels": {"a": "b"}}}, YES, "label"),
        ({"resourceRules": [rule()], "objectSelector": {"matchLabels": {"a": "c"}}}, NO, "label"),
        ({"resourceRules": [rule()], "namespaceSelector": named("shop")}, YES, "its namespace"),
        ({"resourceRules": [rule()], "namespaceSelector": named("bank")}, NO, "another one"),
        (
            {"resourceRules": [rule()], "namespaceSelector": {"matchLabels": {"team": "red"}}},
            PERHAPS,
            "labels of a namespace are in no review",
        ),
    ],
)
def test_a_policy_covers_what_its_constraints_and_a_binding_match(constraints, covers, because):
    (as_constraint,) = read_policies([policy(constraints=constraints), binding()])
    assert as_constraint.covers(WRITE) is covers, because
    everything = {"resourceRules": [rule("*/*", "*")]}
    (as_binding,) = read_policies(
        [policy(constraints=everything), binding(matchResources=constraints)]
    )
    assert as_binding.covers(WRITE) is covers, because


def test_a_binding_without_rules_narrows_nothing():
    (found,) = read_policies([policy(), binding(matchResources={"namespaceSelector": {}})])
    assert found.covers(WRITE) is YES


def test_one_binding_of_several_is_enough():
    nowhere = binding(matchResources={"namespaceSelector": named("bank")})
    (found,) = read_policies([policy(), nowhere, binding()])
    assert found.covers(WRITE) is YES


def test_without_a_binding_a_policy_never_acts_and_a_binding_needs_its_policy():
    assert read_policies([policy()]) == ()
    assert read_policies([binding()]) == ()
    assert read_policies([policy("a"), binding("b")]) == ()


@pytest.mark.parametrize("version", ["v1", "v1beta1", "v1alpha1"])
def test_every_version_of_the_api_reads_alike(version):
    both = [
        {**one, "apiVersion": f"admissionregistration.k8s.io/{version}"}
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


def test_what_variables_are_made_of_counts_as_well():
    variables = [{"name": "held", "expression": "Object.spec{replicas: 2}"}]
    mutation = apply("Object{spec: variables.held}")
    (found,) = read_policies([policy("pins", mutation, variables=variables), binding()])
    assert found.sets("/spec/replicas")


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


def test_what_is_excluded_in_another_version_is_excluded_where_versions_are_equivalent():
    other = [rule(apiVersions=["v1beta1"])]
    for match, covers in (("Equivalent", NO), ("Exact", YES)):
        constraints = {
            "resourceRules": [rule()], "excludeResourceRules": other, "matchPolicy": match,
        }  # fmt: skip
        (found,) = read_policies([policy(constraints=constraints), binding()])
        assert found.covers(WRITE) is covers, match


def test_a_step_of_a_patch_is_escaped():
    mutation = patch('[JSONPatch{op: "add", path: "/metadata/annotations/a~1b~0c", value: 1}]')
    (found,) = read_policies([policy("pins", mutation), binding()])
    assert found.sets("/metadata/annotations/a~1b~0c")
    assert not found.sets("/metadata/annotations/a~1b")


def test_what_an_api_server_would_not_take_is_read_as_far_as_it_goes():
    """A file may hold anything: no name, no expression."""
    nameless = {"kind": "MutatingAdmissionPolicy", "spec": {"matchConditions": [{}]}}
    (found,) = read_policies([nameless, {"kind": "MutatingAdmissionPolicyBinding"}])
    assert (found.name, found.conditions, found.text) == ("", ("",), "")


def test_its_text_is_every_expression_on_a_line_of_its_own():
    variables = [{"name": "held", "expression": "1"}]
    (found,) = read_policies(
        [policy("a", apply("2"), patch("3"), variables=variables), binding("a")]
    )
    assert [line for line in found.text.splitlines() if line] == ["1", "2", "3"]

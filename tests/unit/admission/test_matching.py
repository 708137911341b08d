"""What registrations are matched against, and that they match as the API server does it."""

import json
from typing import Any

import pytest

from genguard.admission.decode import decode_review
from genguard.admission.matching import (
    Match,
    Matched,
    matched,
    read_configurations,
    read_labels,
    read_policies,
)
from genguard.admission.review import AdmissionRequest
from genguard.objects.selectors import Truth
from tests.cases_loader import Case, table
from tests.reviews import make_review
from tests.unit.detection.policies import BEGAN, apply, binding, born, patch, policy, rule
from tests.unit.detection.test_mutators import hook

LABELLED = {"metadata": {"labels": {"a": "b"}}}
WRITE = Matched("apps", "v1", "deployments", "", "UPDATE", "shop", "web", b'{"a": "b"}', b"")
ANY = {"resourceRules": [rule("*/*", "*")]}
OLD = BEGAN - 10_000_000


def request(*arguments: Any, namespace: str | None = None, **more: Any) -> AdmissionRequest:
    asked = make_review(*arguments, **more)
    if namespace is not None:
        asked["request"]["namespace"] = namespace
    return decode_review(json.dumps(asked).encode())


@table("attribution/covers.yaml", "match", "covers")
def test_webhooks_policies_and_bindings_cover_the_same_writes(case: Case) -> None:
    match = {key: value for key, value in case["match"].items() if not key.endswith("Rules")}
    match |= {
        key: [rule("*/*", "*") | one for one in rules]
        for key, rules in case["match"].items()
        if key.endswith("Rules")
    }
    documents = [policy("a", constraints=ANY | match), binding("a")]
    documents += [policy("b", constraints=ANY), binding("b", matchResources=match)]
    found = [one.covers(WRITE).value for one in read_policies(documents)]
    if "excludeResourceRules" not in match:
        rules = match.pop("resourceRules", ANY["resourceRules"])
        (webhook,) = read_configurations([hook("c", rules=rules, **match)])
        found.append(webhook.covers(WRITE).value)
    assert {*found} == {case["covers"]}, case.because


@table("attribution/labels.yaml", "new", "old", "labels", "old_labels")
def test_a_review_shows_the_labels_of_both_objects(case: Case) -> None:
    operation = "CREATE" if case["old"] is None else "UPDATE"
    found = matched(request(operation, "deployments", case["new"], case["old"]))
    assert read_labels(found.labels) == case["labels"], case.because
    assert read_labels(found.old_labels) == case["old_labels"], case.because


@table("attribution/alike.yaml", "change", "named", "alike")
def test_requests_that_rules_and_selectors_cannot_tell_apart_are_alike(case: Case) -> None:
    usual, with_name = {"new": LABELLED, "old": LABELLED}, case.get("named", False)
    one, other = (request("UPDATE", "pods", **usual | each) for each in ({}, case["change"]))
    same = matched(one, with_name=with_name) == matched(other, with_name=with_name)
    assert same is case["alike"], case.because


def test_what_is_in_no_namespace_no_namespace_selector_leaves_out():
    node = Matched("", "v1", "nodes", "", "UPDATE", "", "one", b"", b"")
    for scope, covers in (("Namespaced", Truth.FALSE), ("Cluster", Truth.TRUE)):
        found = Match([rule("*", scope=scope)], namespaces={"matchLabels": {"team": "red"}})
        assert found.covers(node) is covers


def test_what_is_not_known_of_a_write_rules_nobody_out():
    some = Matched("apps", "*", "deployments", "", "UPDATE", "*", "*")
    exact = [rule(apiVersions=["v1"], resourceNames=["web"], scope="Namespaced")]
    one = {"matchLabels": {"a": "b"}}
    for namespaces, objects in ((None, one), (named("shop"), None), (one, None)):
        found = Match(exact, any_version=False, namespaces=namespaces, objects=objects)
        assert found.covers(some) is Truth.UNKNOWN
    assert Match(exact).covers(some) is Truth.TRUE


def named(value):
    return {"matchLabels": {"kubernetes.io/metadata.name": value}}


def test_one_binding_of_several_is_enough():
    nowhere = binding(matchResources={"namespaceSelector": named("bank")})
    (found,) = read_policies([policy(), nowhere, binding()])
    assert found.covers(WRITE) is Truth.TRUE


def test_without_a_binding_a_policy_never_acts_and_a_binding_needs_its_policy():
    validating = {**policy(), "kind": "ValidatingAdmissionPolicy"}
    for documents in (
        [policy()],
        [binding()],
        [policy("a"), binding("b")],
        [validating, binding()],
    ):
        assert read_policies([None, "text", {"kind": "Pod"}, *documents]) == ()


@table(
    "attribution/policies.yaml", *("kind", "ref", "covers", "rules", "exact", "condition", "reads")
)
def test_a_policy_says_what_it_is_for_and_what_it_depends_on(case: Case) -> None:
    given = case.values
    spec = {"paramKind": given["kind"]} if "kind" in given else {}
    if "rules" in given:
        spec["constraints"] = {"resourceRules": [rule() | one for one in given["rules"]]}
    conditions = (given["condition"],) if "condition" in given else ()
    documents = [policy(conditions=conditions, **spec), binding(paramRef=given.get("ref"))]
    (found,) = read_policies(documents)
    told = {
        "covers": found.covers(WRITE).value,
        "exact": found.match.is_exact(WRITE),
        "reads": found.reads_object,
    }
    assert told == told | {key: given[key] for key in told.keys() & given.keys()}, case.because


@table("policies/sets.yaml", "apply", "patch", "pointer", "sets")
def test_a_mutation_visibly_sets_the_fields_that_it_names(case):
    mutation = apply(case["apply"]) if case.get("apply") else patch(case["patch"])
    (found,) = read_policies([policy("pins", mutation), binding()])
    assert found.sets(case["pointer"]) is case["sets"], case.because


def test_what_an_api_server_would_not_take_is_read_as_far_as_it_goes():
    """A file may hold anything: no name, no expression."""
    nameless = {"kind": "MutatingAdmissionPolicy", "spec": {"matchConditions": [{}]}}
    (found,) = read_policies([nameless, {"kind": "MutatingAdmissionPolicyBinding"}])
    assert (found.name, found.conditions, found.text) == ("", ("",), "")
    nameless = {"kind": "MutatingWebhookConfiguration", "webhooks": [{"matchConditions": [{}]}]}
    (webhook,) = read_configurations([nameless])
    assert (webhook.name, webhook.phase, webhook.conditions, webhook.match.rules) == (
        "/", "", ("",), (),
    )  # fmt: skip


def test_variables_of_a_policy_set_fields_too():
    variables = [{"name": "held", "expression": "Object.spec{replicas: 2}"}]
    set_by = policy("a", apply("Object{spec: variables.held}"), patch("3"), variables=variables)
    (found,) = read_policies([set_by, binding("a")])
    assert found.sets("/spec/replicas")


@table("attribution/ages.yaml", "created", "managed", "told")
def test_what_happened_last_before_a_loop_began_counts_if_it_was_not_long_ago(case: Case) -> None:
    managed = [(BEGAN + at, owned) for at, owned in case.get("managed", ())]
    (found,) = read_configurations([born(hook("mmm"), BEGAN + case["created"], *managed)])
    told = found.age(BEGAN)
    assert (told and [*told]) == case["told"], case.because


@pytest.mark.parametrize(("of_policy", "of_binding"), [(OLD, BEGAN), (BEGAN, OLD)])
def test_a_policy_acts_once_it_is_bound(of_policy: float, of_binding: float) -> None:
    (found,) = read_policies([born(policy(), of_policy), born(binding(), of_binding)])
    assert found.age(BEGAN + 1) == (1, "created")

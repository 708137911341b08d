"""What rules and selectors are matched against, and that they match as the API server does."""

import json
from typing import Any

import pytest

from genguard.admission.decode import decode_review
from genguard.admission.review import AdmissionRequest
from genguard.detection.matching import (
    Matched,
    matched,
    matches_rules,
    read_policies,
    selects,
    shown_to_rules,
)
from genguard.detection.suspects import read_configurations
from genguard.objects.selectors import Truth
from tests.cases_loader import Case, table
from tests.reviews import make_review
from tests.unit.detection.policies import binding, policy, rule
from tests.unit.detection.test_suspects import hook

LABELLED = {"metadata": {"labels": {"a": "b"}}}
WRITE = Matched("apps", "v1", "deployments", "", "UPDATE", "shop", "web", {"a": "b"}, {})
ANY = {"resourceRules": [rule("*/*", "*")]}


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


@pytest.mark.parametrize(
    ("new", "old", "labels", "old_labels"),
    [
        (LABELLED, LABELLED, {"a": "b"}, {"a": "b"}),
        (LABELLED, {"metadata": {"labels": {"c": "d"}}}, {"a": "b"}, {"c": "d"}),
        ({}, LABELLED, {}, {"a": "b"}),
        (LABELLED, None, {"a": "b"}, {}),
        ({"metadata": {"labels": None}}, LABELLED, {}, {"a": "b"}),
    ],
)
def test_a_review_shows_the_labels_of_both_objects(new, old, labels, old_labels):
    operation = "CREATE" if old is None else "UPDATE"
    assert matched(request(operation, "deployments", new, old, subresource="status")) == Matched(
        "apps", "v1", "deployments", "status", operation, "default", "thing", labels, old_labels
    )


@pytest.mark.parametrize(
    ("change", "with_name", "alike"),
    [
        ({"name": "another"}, True, False),
        ({"name": "another"}, False, True),
        ({"namespace": "another"}, False, False),
        ({"subresource": "status"}, False, False),
        ({"new": {"spec": {"a": 1}}}, False, False),
        ({"new": {**LABELLED, "spec": {"a": 1}}}, False, True),
        ({"old": {"metadata": {"labels": {"a": "c"}}}}, False, False),
    ],
)
def test_requests_that_rules_and_selectors_cannot_tell_apart_are_alike(change, with_name, alike):
    usual = {"new": LABELLED, "old": LABELLED}
    one, other = request("UPDATE", "pods", **usual), request("UPDATE", "pods", **usual | change)
    same = shown_to_rules(one, with_name=with_name) == shown_to_rules(other, with_name=with_name)
    assert same is alike


def test_what_is_in_no_namespace_no_namespace_selector_leaves_out():
    node = Matched("", "v1", "nodes", "", "UPDATE", "", "one", {}, {})
    assert selects({"matchLabels": {"team": "red"}}, None, node) is Truth.TRUE
    for scope, covers in (("Namespaced", False), ("Cluster", True)):
        assert matches_rules([rule("*", scope=scope)], node, any_version=False) is covers

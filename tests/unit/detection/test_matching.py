"""What rules and selectors are matched against, and that they match as the API server does."""

import json
from typing import Any

import pytest

from genguard.admission.decode import decode_review
from genguard.admission.review import AdmissionRequest
from genguard.detection.matching import Matched, matched, matches_rules, selects, shown_to_rules
from genguard.objects.selectors import Truth
from tests.reviews import make_review

LABELLED = {"metadata": {"labels": {"a": "b"}}}
YES, NO, PERHAPS = Truth.TRUE, Truth.FALSE, Truth.UNKNOWN


def request(*arguments: Any, namespace: str | None = None, **more) -> AdmissionRequest:
    asked = make_review(*arguments, **more)
    if namespace is not None:
        asked["request"]["namespace"] = namespace
    return decode_review(json.dumps(asked).encode())


@pytest.mark.parametrize(
    ("new", "old", "labels", "old_labels"),
    [
        (LABELLED, LABELLED, {"a": "b"}, {"a": "b"}),
        (LABELLED, {"metadata": {"labels": {"c": "d"}}}, {"a": "b"}, {"c": "d"}),
        ({}, LABELLED, {}, {"a": "b"}),
        (LABELLED, {}, {"a": "b"}, {}),
        ({"metadata": {"labels": None}}, LABELLED, {}, {"a": "b"}),
    ],
)
def test_a_review_shows_the_labels_of_both_objects(new, old, labels, old_labels):
    found = matched(request("UPDATE", "deployments", new, old, subresource="status"))
    assert found == Matched(
        "apps", "v1", "deployments", "status", "UPDATE", "default", "thing", labels, old_labels
    )


def test_of_a_creation_and_of_a_deletion_one_object_is_shown():
    created = matched(request("CREATE", "pods", LABELLED))
    assert (created.labels, created.old_labels) == ({"a": "b"}, {})
    deleted = matched(request("DELETE", "pods", None, LABELLED))
    assert (deleted.labels, deleted.old_labels) == ({}, {"a": "b"})


@pytest.mark.parametrize(
    ("change", "with_name", "alike"),
    [
        ({}, True, True),
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


def test_another_resource_or_operation_is_another_sort_of_write():
    created = request("CREATE", "pods", LABELLED)
    likenesses = {
        shown_to_rules(one, with_name=False)
        for one in (
            created,
            request("CREATE", "deployments", LABELLED),
            request("DELETE", "pods", None, LABELLED),
            request("CREATE", "pods", {}),
        )
    }
    assert len(likenesses) == 4


WRITE = Matched("apps", "v1", "deployments", "", "UPDATE", "shop", "web", {"a": "b"}, {})
EVERY = {"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*"]}


@pytest.mark.parametrize(
    ("rule", "any_version", "matches"),
    [
        ({}, False, True),
        ({"apiGroups": ["apps"]}, False, True),
        ({"apiGroups": [""]}, False, False),
        ({"apiVersions": ["v1"]}, False, True),
        ({"apiVersions": ["v1beta1"]}, False, False),
        ({"apiVersions": ["v1beta1"]}, True, True),
        ({"apiVersions": None}, False, False),
        ({"scope": "Namespaced"}, False, True),
        ({"scope": "Cluster"}, False, False),
        ({"scope": "*"}, False, True),
        ({"scope": None}, False, True),
        ({"resources": None}, False, False),
        ({"resources": ["deployments/"]}, False, True),
        ({"resources": ["deployments/*"]}, False, True),
        ({"resources": ["pods", "deployments"]}, False, True),
    ],
)
def test_a_rule_covers_a_write_of_an_object_in_a_namespace(rule, any_version, matches):
    assert matches_rules([EVERY | rule], WRITE, any_version=any_version) is matches


@pytest.mark.parametrize(("scope", "matches"), [("Namespaced", False), ("Cluster", True)])
def test_a_rule_covers_a_write_of_an_object_of_the_cluster(scope, matches):
    node = Matched("", "v1", "nodes", "", "UPDATE", "", "one", {}, {})
    assert matches_rules([EVERY | {"scope": scope}], node, any_version=False) is matches


@pytest.mark.parametrize(
    ("namespaces", "objects", "takes", "because"),
    [
        (None, None, YES, "no selector takes everything"),
        ({"matchLabels": {"team": "red"}}, None, PERHAPS, "labels of namespaces are not shown"),
        (None, {"matchLabels": {"a": "b"}}, YES, "the new object has it"),
        (None, {"matchLabels": {"c": "d"}}, NO, "labels of objects are all shown, and none has it"),
        (None, {"matchExpressions": [{"key": "a", "operator": "DoesNotExist"}]}, YES,
         "the old object has it not"),
    ],
)  # fmt: skip
def test_selectors_take_either_object(namespaces, objects, takes, because):
    assert selects(namespaces, objects, WRITE) is takes, because


def test_what_is_in_no_namespace_no_namespace_selector_leaves_out():
    node = Matched("", "v1", "nodes", "", "UPDATE", "", "one", {}, {})
    assert selects({"matchLabels": {"team": "red"}}, None, node) is YES

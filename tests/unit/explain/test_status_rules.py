"""`genguard explain` describes each status rule in the words of its docstring."""

import pytest

from genguard.explain.explanation import describe_status_rule
from genguard.status.kinds import KINDS


@pytest.mark.parametrize(("group", "kind"), KINDS, ids=lambda part: part or "core")
def test_every_rule_says_when_an_object_is_ready_and_settled(group, kind):
    found = describe_status_rule(group, kind)
    assert found.ready
    assert found.settled
    assert not found.ready.endswith(".")
    assert not found.generic


def test_an_unknown_kind_is_evaluated_by_its_conditions():
    found = describe_status_rule("example.org", "Widget")
    assert found.generic
    assert "Ready, Available" in found.ready


def test_what_holds_for_the_whole_kind_is_added():
    assert describe_status_rule("apps", "Deployment").settled.endswith("(KEP-3973)")
    assert (
        describe_status_rule("apps", "StatefulSet").first
        == "status.observedGeneration is metadata.generation"
    )
    assert "if there is one" in describe_status_rule("batch", "Job").first
    assert describe_status_rule("", "ConfigMap").first == ""

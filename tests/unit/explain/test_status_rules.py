"""`genguard explain` describes each status rule in the words of evaluated.yaml."""

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

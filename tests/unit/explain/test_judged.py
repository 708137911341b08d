"""How a kind is judged is told in the words of its judge."""

import pytest

from webhook.explain.judged import judged
from webhook.status.kinds.table import KINDS


@pytest.mark.parametrize(("group", "kind"), KINDS, ids=lambda part: part or "core")
def test_every_judge_says_when_it_calls_a_thing_ready_and_settled(group, kind):
    found = judged(group, kind)
    assert found.ready
    assert found.settled
    assert not found.ready.endswith(".")
    assert not found.generic


def test_a_kind_that_nobody_knows_is_judged_by_conditions():
    found = judged("example.org", "Widget")
    assert found.generic
    assert "Ready, Available" in found.ready


def test_what_the_table_of_kinds_adds_is_told_too():
    assert judged("apps", "Deployment").settled.endswith("(KEP-3973)")
    assert judged("apps", "StatefulSet").first == "status.observedGeneration is metadata.generation"
    assert "where there is one" in judged("batch", "Job").first
    assert judged("", "ConfigMap").first == ""

"""Expressions of rules: what Flux' environment has, where an error is, and what they may cost."""

import json

import pytest

from genguard.status.health_rules import HealthRule, HealthRules, Key, NoAnswer
from genguard.status.view import Health
from tests.cases_loader import table
from tests.costly_objects import costly_object
from webhook.cel.evaluator import MOST_BYTES, Evaluator, RuleEvaluator
from webhook.cel.programs import MOST_RULES, evaluate_rule, rule_program

READY = "status.conditions.exists(c, c.type == 'Ready' && c.status == 'True')"
COSTLY = "spec.list.all(x, x in spec.list.filter(y, y == x))"


@pytest.fixture(scope="module")
def evaluator():
    with Evaluator() as made:
        yield made


def answers_of(evaluator, document, **expressions):
    rule = HealthRule("example.org", "", {Key(key): one for key, one in expressions.items()}, "f")
    return evaluator.answer(rule, document).values


@table("health_rules/expressions.yaml", "key", "expression", "over", "gives")
def test_an_expression_gives_what_flux_would_have_of_it(case):
    expression, over = case["expression"], json.dumps(case["over"]).encode()
    found = evaluate_rule(expression, {expression: Key(case["key"])}, over)
    gives = case["gives"]
    wanted = {"error": NoAnswer.ERROR, "Red": Health.RED}.get(gives, gives)
    assert (found, type(found)) == (wanted, type(wanted)), case.because


@table("health_rules/mistakes.yaml", "key", "expression", "told")
def test_an_expression_that_cannot_be_used_is_told_with_its_place(case, evaluator):
    assert evaluator.complaint(case["expression"], Key(case["key"])) == case["told"], case.because


def test_all_expressions_of_a_rule_are_evaluated_over_one_object(evaluator):
    document = {"status": {"conditions": [], "done": 1, "phase": "Bad"}, "spec": {"size": 4}}
    found = answers_of(
        evaluator,
        document,
        current=READY,
        failed="status.phase == 'Bad'",
        inProgress="status.nothing",
        health="status.phase == 'Bad' ? 'Red' : 'Green'",
        progress="double(status.done) / double(spec.size)",
    )
    assert found == {
        Key.CURRENT: False,
        Key.FAILED: True,
        Key.IN_PROGRESS: NoAnswer.ERROR,
        Key.HEALTH: Health.RED,
        Key.PROGRESS: 25,
    }


@pytest.mark.slow
def test_a_rule_that_costs_too_much_is_not_asked_again_and_others_are(caplog):
    with Evaluator() as evaluator:
        filled = costly_object("numbers")
        assert answers_of(evaluator, filled, current=COSTLY) == {}
        assert evaluator.costly == 1
        assert "an expression of a rule costs too much" in caplog.text
        small = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
        assert answers_of(evaluator, small, current=READY) == {Key.CURRENT: True}
        started = evaluator.started
        assert answers_of(evaluator, filled, current=COSTLY) == {}
        assert evaluator.started == started


def test_an_object_that_is_too_large_is_not_evaluated(evaluator):
    large = {"status": {"text": "x" * MOST_BYTES}}
    assert answers_of(evaluator, large, current="true") == {}
    assert evaluator.costly == 0


def test_an_object_is_evaluated_by_the_rule_of_its_kind_and_by_none_without_one(evaluator):
    rule = HealthRule("example.org", "Widget", {Key.CURRENT: "true"}, "f")
    rules = RuleEvaluator(evaluator, HealthRules([rule]))
    widget = {"apiVersion": "example.org/v2", "kind": "Widget"}
    assert rules(widget).values == {Key.CURRENT: True}
    assert rules({**widget, "kind": "Gadget"}) is None


def test_compiled_rules_are_bounded():
    for number in range(MOST_RULES + 5):
        expression = f"status.n == {number}"
        found = evaluate_rule(expression, {expression: Key.CURRENT}, b'{"status":{"n":3}}')
        assert found is (number == 3)
    assert rule_program.cache_info().currsize == MOST_RULES

"""The rules that genguard ships: each compiles and has cases, and each case passes."""

import time

import pytest

from genguard.status.evaluate import evaluate
from genguard.status.health_rules import HealthRules
from genguard.status.rule_library import load_library, load_library_cases
from tests.cases_loader import table
from webhook.cel.evaluator import Evaluator, RuleEvaluator

CASES = list(load_library_cases())


@pytest.fixture(scope="module")
def evaluator():
    with Evaluator() as made:
        yield made


@pytest.fixture(scope="module")
def make_dependencies(evaluator):
    return RuleEvaluator(evaluator, HealthRules((), load_library))


def test_every_expression_compiles(evaluator):
    wrong = [
        (str(rule), key, why)
        for rule in load_library()
        for key, expression in rule.expressions.items()
        if (why := evaluator.complaint(expression, key))
    ]
    assert not wrong


@pytest.mark.parametrize(
    ("project", "case"), CASES, ids=[f"{name}: {case.because}"[:70] for name, case in CASES]
)
def test_each_case_passes(project, case, make_dependencies):
    assert make_dependencies.covers(*case.of), "no rule is for this object"
    assert case.because
    assert not case.differences(make_dependencies, time.time())


def test_there_are_rules_for_thirty_kinds_and_more_each_with_cases():
    kinds = {case.of for _, case in CASES}
    projects = {rule.source for rule in load_library()}
    assert len(kinds) >= 60
    assert len(projects) >= 29
    assert projects == {f"library: {name}" for name, _ in CASES}
    results = {(name, repr(case.expect)) for name, case in CASES}
    for project in {name for name, _ in CASES}:
        assert len({expect for name, expect in results if name == project}) >= 2, project


@table("health_rules/said.yaml", "object", "why")
def test_what_a_rule_reads_is_said_with_the_parent_or_listener(case, make_dependencies):
    obj = case["object"]
    view = evaluate(obj, answers=make_dependencies(obj), at=time.time())
    assert [str(one) for one in view.reasons] == case["why"], case.because

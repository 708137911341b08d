"""Rules in CEL: how they are read, which one is for a kind, and what follows from answers."""

import pytest

from genguard.status.evaluate import evaluate
from genguard.status.health_rules import (
    BadRuleError,
    HealthRule,
    HealthRules,
    Key,
    NoAnswer,
    RuleAnswers,
    parse_rules,
)
from genguard.status.rule_library import Case, parse_cases
from genguard.status.view import Health
from tests.cases_loader import table

READY = "status.conditions.exists(c, c.type == 'Ready' && c.status == 'True')"
FAILED = "status.phase == 'Failed'"
RULE = {"apiVersion": "example.org/v1", "kind": "Widget", "current": READY, "failed": FAILED}


def rule(**changed):
    (found,) = parse_rules({"rules": [RULE | changed]}, "file.yaml")
    return found


def widget(generation=1, **status):
    metadata = {"name": "a", "generation": generation}
    return {
        "apiVersion": "example.org/v2",
        "kind": "Widget",
        "metadata": metadata,
        "status": status,
    }


def view(document, values, **changed):
    answers = RuleAnswers(rule(**changed), {Key(key): value for key, value in values.items()})
    return evaluate(document, answers=answers, at=0.0)


@table("health_rules/answers.yaml", "answers", "expect")
def test_the_first_true_expression_decides(case):
    values = {
        key: {"error": NoAnswer.ERROR, **{one.value: one for one in Health}}.get(value, value)
        if isinstance(value, str)
        else value
        for key, value in case["answers"].items()
    }
    found = view(widget(phase="Busy"), values, **dict.fromkeys(case["answers"], READY))
    told = {
        "ready": found.ready,
        "settled": found.settled,
        "health": found.health.value,
        "failed": found.failed,
        "progress": found.progress,
    }
    assert {key: told[key] for key in case["expect"]} == case["expect"], case.because


def test_a_reason_names_the_fields_that_the_deciding_expression_reads():
    document = widget(
        conditions=[{"type": "Ready", "status": "False", "reason": "NoImage", "message": "secret"}]
    )
    assert [str(one) for one in view(document, {"current": False}).reasons] == [
        "status.conditions[Ready] False, want `current` true: NoImage"
    ]
    failed = view(widget(phase="Failed"), {"failed": True, "current": False})
    assert [str(one) for one in failed.reasons] == ["status.phase Failed, want `failed` false"]


def test_a_reason_shows_no_free_text_of_the_object():
    document = widget(phase="my password is 123")
    found = view(document, {"failed": True, "current": False})
    assert [str(one) for one in found.reasons] == ["status.phase a text, want `failed` false"]


def test_a_status_of_an_older_generation_comes_before_the_rule():
    found = view(widget(generation=3, observedGeneration=2), {"current": True})
    assert (found.ready, found.settled) == (False, False)
    assert str(found.reasons[0]) == "status.observedGeneration 2, want 3"


def test_deletion_comes_before_the_rule():
    document = widget()
    document["metadata"]["deletionTimestamp"] = "1970-01-01T00:00:00Z"
    assert view(document, {"current": True}).ready is False


def test_what_was_not_evaluated_is_evaluated_by_its_conditions():
    document = widget(conditions=[{"type": "Ready", "status": "True"}])
    found = view(document, {})
    assert found.ready
    assert "its rule not evaluated" in str(found.reasons[-1])


def test_the_rule_of_the_user_comes_before_the_library_and_a_kind_before_its_group():
    def make(group, kind, source):
        return HealthRule(group, kind, {Key.CURRENT: "true"}, source)

    rules = HealthRules(
        [make("a.example.org", "", "own group"), make("b.example.org", "One", "own kind")],
        lambda: [
            make("a.example.org", "One", "library"),
            make("b.example.org", "One", "library"),
            make("b.example.org", "", "library group"),
            make("*.example.org", "", "library domain"),
            make("*.example.org", "Two", "library domain and kind"),
        ],
    )
    found = {
        place: getattr(rules.find(*place), "source", None)
        for place in [
            ("a.example.org", "One"), ("b.example.org", "One"), ("b.example.org", "Two"),
            ("c.d.example.org", "One"), ("c.d.example.org", "Two"), ("example.org", "One"),
        ]
    }  # fmt: skip
    assert found == {
        ("a.example.org", "One"): "own group",
        ("b.example.org", "One"): "own kind",
        ("b.example.org", "Two"): "library group",
        ("c.d.example.org", "One"): "library domain",
        ("c.d.example.org", "Two"): "library domain and kind",
        ("example.org", "One"): None,
    }


def test_built_in_kinds_keep_their_own_rules_and_do_not_load_the_library():
    def never():
        raise AssertionError("read")

    assert HealthRules((), never).find("apps", "Deployment") is None
    assert HealthRules((), never).find("", "ConfigMap") is None


@pytest.mark.parametrize("key", ["rules", "healthCheckExprs"])
def test_flux_lists_are_read_as_they_are(key):
    (found,) = parse_rules({key: [RULE]}, "f")
    (inside,) = parse_rules({"kind": "Kustomization", "spec": {key: [RULE]}}, "f")
    assert found == inside
    assert (found.group, found.kind) == ("example.org", "Widget")


@table("health_rules/refused.yaml", "rule", "told")
def test_a_rule_that_cannot_be_used_is_refused_in_one_line(case):
    listed = case["rule"] if isinstance(case["rule"], list) else [case["rule"]]
    with pytest.raises(BadRuleError) as error:
        parse_rules({"rules": listed}, "f")
    assert case["told"] in str(error.value), case.because
    assert "\n" not in str(error.value)


@table("health_rules/bad_cases.yaml", "case", "told")
def test_a_case_that_cannot_be_used_is_refused(case):
    with pytest.raises(BadRuleError) as error:
        list(parse_cases({"cases": [case["case"]]}))
    assert case["told"] in str(error.value)


def test_a_case_tells_each_difference_and_what_blocks():
    answers = RuleAnswers(rule(), {Key.CURRENT: False, Key.FAILED: False})
    case = Case("", widget(phase="Busy"), {"result": "current", "health": "Yellow"})
    assert case.differences(lambda _: answers, 0.0) == [
        "result inProgress, want current",
        "status.conditions[Ready] absent, want `current` true",
    ]
    assert not Case("", widget(), {"ready": False}).differences(lambda _: answers, 0.0)

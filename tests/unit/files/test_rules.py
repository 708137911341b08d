"""Rules in files and ConfigMaps: what is read, what is refused, and what stays in use."""

import json

import pytest

from tests.cases_loader import table
from webhook.cel.evaluator import Evaluator
from webhook.files.given import BadFileError
from webhook.files.rules import (
    RulesLocation,
    ServerRules,
    load_rules,
    parse_location,
    read_rule_file,
)

GOOD = "healthCheckExprs: [{apiVersion: example.org/v1, kind: Widget, current: 'has(status.a)'}]"
BAD = GOOD.replace("has(status.a)", "has(status.a")
WIDGET = ("example.org", "Widget")


def no_refusal(_, __):
    return ""


@pytest.fixture(scope="module")
def evaluator():
    with Evaluator() as made:
        yield made


def test_flux_kustomizations_and_configmaps_have_rules(tmp_path):
    flux = {"kind": "Kustomization", "spec": {"healthCheckExprs": [
        {"apiVersion": "a.example.org/v1", "kind": "One", "current": "true"}]}}  # fmt: skip
    held = {"kind": "ConfigMap", "data": {"one.yaml": GOOD}}
    path = tmp_path / "all.yaml"
    path.write_text(f"{json.dumps(flux)}\n{json.dumps(held)}\n")
    found = load_rules(path, no_refusal)
    assert [str(one) for one in found] == ["One.a.example.org", "Widget.example.org"]


def test_cases_are_in_the_file_or_beside_it(tmp_path):
    case = "cases: [{object: {apiVersion: example.org/v1, kind: Widget}, expect: inProgress}]"
    path = tmp_path / "widgets.yaml"
    path.write_text(f"{GOOD}\n---\n{case}\n")
    (tmp_path / "widgets.cases.yaml").write_text(case)
    found = read_rule_file(path)
    assert (len(found.rules), len(found.cases)) == (1, 2)


@table("documents/bad_rule_files.yaml", "text", "told")
def test_a_file_that_cannot_be_used_is_told_with_its_place(tmp_path, case):
    path = tmp_path / "rules.yaml"
    path.write_text(case["text"])
    with pytest.raises(BadFileError) as error:
        load_rules(path, no_refusal)
    assert str(error.value).startswith("--rules ")
    assert case["told"] in str(error.value), case.because


@pytest.mark.parametrize(
    ("text", "location"),
    [("", None), ("configmap:rules", ("", "rules")), ("configmap:shop/rules", ("shop", "rules"))],
)
def test_rules_are_in_a_file_or_a_configmap(text, location):
    assert parse_location(text) == (location and RulesLocation(None, *location))
    assert str(parse_location("a/configmap.yaml").file) == "a/configmap.yaml"


@pytest.mark.parametrize("text", ["configmap:", "configmap:A", "configmap:a/b/c", "configmap:/a"])
def test_a_configmap_has_a_name(text):
    with pytest.raises(BadFileError, match="configmap:NAME"):
        parse_location(text)


def test_the_last_good_rules_stay_in_use_and_the_log_says_why(evaluator, caplog):
    rules = ServerRules(evaluator, parse_location("configmap:rules"))
    assert rules.evaluator.rules.find(*WIDGET) is None
    rules.take({"widgets.yaml": GOOD})
    good = rules.evaluator.rules.find(*WIDGET)
    assert (good.source, rules.is_refused) == ("widgets.yaml", False)
    for bad in ({"widgets.yaml": BAD}, {"widgets.yaml": "a: b"}, None):
        rules.take(bad)
        assert (rules.evaluator.rules.find(*WIDGET), rules.is_refused) == (good, True)
    told = [
        one.fields["reason"] for one in caplog.records if "reason" in getattr(one, "fields", ())
    ]
    assert "Widget.example.org: `current`: line 1, column 13" in told[-3]
    assert "widgets.yaml:1: no list `rules`" in told[-2]
    assert "was deleted" in told[-1]
    rules.take({})
    assert (rules.evaluator.rules.find(*WIDGET), rules.is_refused) == (None, False)

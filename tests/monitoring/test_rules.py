"""promtool on the very rules that users apply: valid, and firing when they should and only then."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cases_loader import read_beside
from tests.monitoring.binaries import binary
from tests.monitoring.rules import BY_DETECTOR, RUNBOOK_URL, alerts, write_rules

CASES: list[dict[str, Any]] = read_beside(__file__, "cases.yaml")
RULES = alerts()


def severity_of(rule: dict[str, Any]) -> str | None:
    """The severity of a rule; None where the metric itself carries it."""
    found: str | None = rule.get("labels", {}).get("severity")
    return found


def rule_of(case: dict[str, Any]) -> dict[str, Any]:
    """The rule that a case is about; it names a severity where two rules share a name."""
    named = [rule for rule in RULES if rule["alert"] == case["alert"]]
    if "severity" in case:
        named = [rule for rule in named if severity_of(rule) == case["severity"]]
    (rule,) = named
    return rule


def promtool_test(case: dict[str, Any], rule: dict[str, Any]) -> dict[str, Any]:
    """A case as promtool takes it, which compares all annotations: the fixed are the rule's."""
    expected = [
        {
            "exp_labels": fired["labels"],
            "exp_annotations": {
                "summary": rule["annotations"]["summary"],
                "description": fired["description"],
                "runbook_url": RUNBOOK_URL + fired.get("runbook", case["alert"]),
            },
        }
        for fired in case["fires"]
    ]
    return {
        "name": case["name"],
        "interval": "1m",
        "input_series": [
            {"series": series, "values": values} for series, values in case["series"].items()
        ],
        "alert_rule_test": [
            {"eval_time": case["at"], "alertname": case["alert"], "exp_alerts": expected}
        ],
    }


def promtool(*args: str | Path) -> str:
    done = subprocess.run(
        [binary("promtool"), *args], capture_output=True, text=True, timeout=60, check=False
    )
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    return said


def test_the_rules_are_valid(tmp_path: Path) -> None:
    assert f"SUCCESS: {len(RULES)} rules found" in promtool("check", "rules", write_rules(tmp_path))


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['alert']}: {case['name']}")
def test_an_alert_fires_when_it_should_and_only_then(tmp_path: Path, case: dict[str, Any]) -> None:
    """Alone with its rule: alerts of one name share a result in promtool."""
    rule = rule_of(case)
    file = {
        "rule_files": ["one.rules.yaml"],
        "evaluation_interval": "1m",
        "tests": [promtool_test(case, rule)],
    }
    one = {"groups": [{"name": "one", "rules": [rule]}]}
    (tmp_path / "one.rules.yaml").write_text(yaml.safe_dump(one))
    (tmp_path / "test.yaml").write_text(yaml.safe_dump(file))
    promtool("test", "rules", tmp_path / "test.yaml")


def test_every_alert_has_a_case_that_fires_and_one_that_does_not() -> None:
    tried = [
        (rule_of(case)["alert"], severity_of(rule_of(case)), bool(case["fires"])) for case in CASES
    ]
    wanted = {
        (rule["alert"], severity_of(rule), fires) for rule in RULES for fires in (True, False)
    }
    assert wanted - set(tried) == set(), "add a case to cases.yaml"


def test_an_alert_says_what_its_reader_needs(subtests: pytest.Subtests) -> None:
    for rule in RULES:
        with subtests.test(rule["alert"], severity=severity_of(rule)):
            says_what_its_reader_needs(rule)


def says_what_its_reader_needs(rule: dict[str, Any]) -> None:
    assert re.fullmatch(r"Genguard([A-Z][a-z]+)+", rule["alert"])
    assert severity_of(rule) in {"warning", "critical"} or "severity" in rule["expr"]
    annotations = rule["annotations"]
    assert set(annotations) == {"summary", "description", "runbook_url"}
    assert re.fullmatch(r"[A-Z][^{}]*\.", annotations["summary"]), "fixed, a sentence"
    assert annotations["description"].endswith(".")
    page = annotations["runbook_url"].removeprefix(RUNBOOK_URL)
    assert page == (BY_DETECTOR if rule["alert"] == "GenguardLoop" else rule["alert"])


def label_matchers() -> Iterator[tuple[str, str]]:
    for rule in RULES:
        for matchers in re.findall(r"\{([^}]*)\}", rule["expr"]):
            for name in re.findall(r"(\w+)\s*[=!]", matchers):
                yield rule["alert"], name


def test_no_alert_asks_for_a_label_that_only_the_operator_sets() -> None:
    """`job` apart, which scrape.yaml fixes: the rules hold without the operator too."""
    exported = {"severity", "decision", "name", "reason", "missing", "le"}
    assert {name for _, name in label_matchers()} <= exported | {"job"}

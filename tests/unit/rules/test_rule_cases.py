"""Each rule alone against its table: tests/cases/rules/<rule>/{acts,must_not}."""

import importlib
import pkgutil
from dataclasses import replace
from typing import Any

import pytest

from genguard import rules
from genguard.admission.review import Phase
from genguard.generation import CustomResource, StatusSubresource
from genguard.review import Dependencies
from genguard.review_setup import GenerationPatch
from genguard.rules.rule import Rule
from tests.cases_loader import FOLDER, Case, load
from tests.reviews import KINDS, Answer, ask, changes, make_dependencies, make_review

KEYS = ("request", "settings", "intents", "at", "old", "object", "expect")
RULES = sorted(path.name for path in (FOLDER / "rules").iterdir())
ROWS = [
    pytest.param(rule, case, id=f"{rule}-{kind}-{case.name}")
    for rule in RULES
    for kind in ("acts", "must_not")
    for case in load(f"rules/{rule}/{kind}", *KEYS)
]


def only(rule: str, settings: dict[str, Any]) -> Dependencies:
    """Everything genguard examines with, and of the rules this one."""
    custom = [
        CustomResource(*KINDS[plural], StatusSubresource(status))
        for plural, status in settings.get("custom", {}).items()
    ]
    dependencies = make_dependencies(
        generation_patch=GenerationPatch.ALWAYS,
        custom=custom,
        flip=tuple(settings.get("flip", ())),
        server_version=settings.get("server", "1.36"),
        **({"restore": settings["restore"]} if "restore" in settings else {}),
    )
    name = rule.replace("_", "-")

    def chosen(rules: tuple[Rule, ...]) -> tuple[Rule, ...]:
        return tuple(one for one in rules if one.name == name)

    return replace(
        dependencies,
        repair_rules=chosen(dependencies.repair_rules),
        generation_rules=chosen(dependencies.generation_rules),
    )


def run(rule: str, case: Case) -> Answer:
    """Send the intents of a case, then its write."""
    dependencies = only(rule, case.get("settings", {}))
    request = case["request"]
    for intent in case.get("intents", []):
        old = intent.get("old", case.get("old"))
        asked = make_review(
            **{**request, **intent.get("request", {})}, new=intent["object"], old=old
        )
        ask(asked, dependencies, phase=Phase.INTENT, now=intent.get("at", 0))
    asked = make_review(**request, new=case.get("object"), old=case.get("old"))
    return ask(asked, dependencies, now=case.get("at", 1))


@pytest.mark.parametrize(("rule", "case"), ROWS)
def test_a_rule_does_what_its_table_says(rule, case):
    answer = run(rule, case)
    assert changes(answer) == case.get("expect", {}), case.because
    told = answer.annotations.get(rule.replace("_", "-"))
    assert bool(told) == ("expect" in case.values), "what is done is told, and nothing else"


@pytest.mark.parametrize(
    ("rule", "case"), [row for row in ROWS if "expect" in row.values[1].values]
)
def test_what_a_rule_has_mended_it_leaves_alone(rule, case):
    request = case["request"]
    mended = run(rule, case).object
    again = make_review(**request, new=mended, old=case.get("old"))
    assert changes(ask(again, only(rule, case.get("settings", {})))) == {}


def test_every_rule_has_a_case_that_acts_and_one_that_must_not():
    modules = {name for _, name, _ in pkgutil.iter_modules(rules.__path__)} - {
        "rule",
        "annotations",
    }
    assert set(RULES) == modules
    for rule in RULES:
        assert all("expect" in case.values for case in load(f"rules/{rule}/acts", *KEYS))
        assert all("expect" not in case.values for case in load(f"rules/{rule}/must_not", *KEYS))


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_opens_with_what_it_reads_acts_on_results_in_and_relies_on(rule):
    text = importlib.import_module(f"genguard.rules.{rule}").__doc__ or ""
    places = [text.find(f"\n{word} ") for word in ("Reads", "Acts on", "Result", "Relies")]
    assert -1 not in places
    assert places == sorted(places)

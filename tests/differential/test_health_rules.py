"""The library's rules against Argo CD's health checks in Lua and Flux' evaluator, which run here.

The objects are those on which Argo CD tests its own checks, and those of the library's own cases.
Each way in which genguard differs on purpose is in a table, with its reason.
"""

import time
from collections import Counter
from fnmatch import fnmatchcase
from pathlib import Path

import pytest
import yaml

from genguard.status.evaluate import evaluate
from genguard.status.health_rules import HealthRules, parse_rules
from genguard.status.rule_library import load_library, load_library_cases, result
from genguard.status.trees import group_and_kind
from genguard.status.view import Health
from tests.differential.health_tools import ask_tools, recorded
from webhook.cel.evaluator import Evaluator, RuleEvaluator

_CASES = Path(__file__).parents[1] / "cases" / "health_rules"
_WORDS = {"current": "Healthy", "inProgress": "Progressing"}
_FLUX = {"current": "Current", "inProgress": "InProgress", "failed": "Failed"}
# Kinds with a wildcard in Argo CD's folder, which the program does not look for.
_WILD = ("grafana-org-operator.kubitus-project.gitlab.io/_/", "operator.victoriametrics.com/_/")


def _table(name):
    return yaml.load((_CASES / name).read_text(), yaml.CSafeLoader)


@pytest.fixture(scope="module")
def evaluator():
    with Evaluator() as made:
        yield made


@pytest.fixture(scope="module")
def library(evaluator):
    return RuleEvaluator(evaluator, HealthRules((), load_library))


@pytest.fixture(scope="module")
def evaluated(library):
    """Each recorded object of a kind in the library: its path, Argo CD's word and ours."""
    objects = [one for one in recorded() if library.covers(*group_and_kind(one.object))]
    answers = ask_tools([one.object for one in objects], [None] * len(objects))
    return [
        (one.path, answer["argo"], _argo_word(_view(one.object, library)))
        for one, answer in zip(objects, answers, strict=True)
    ]


def test_the_program_runs_the_checks_as_argo_cd_runs_them():
    objects = [one for one in recorded() if not one.path.startswith(_WILD)]
    answers = ask_tools([one.object for one in objects], [None] * len(objects))
    wrong = [
        (one.path, one.expected, answer["argo"])
        for one, answer in zip(objects, answers, strict=True)
        if one.expected != answer["argo"]
    ]
    assert len(objects) > 1_000
    assert not wrong


def test_the_library_says_what_argo_cd_says_or_the_table_says_why_not(evaluated):
    table = _table("differs_from_argo.yaml")
    unexplained = [
        (path, argo, ours)
        for path, argo, ours in evaluated
        if not _agree(argo, ours) and not any(_explains(row, path, argo, ours) for row in table)
    ]
    assert not unexplained
    assert len(evaluated) > 340
    assert len({path.rsplit("/", 2)[0] for path, _, _ in evaluated}) > 80, "kinds"
    same = Counter(argo for _, argo, ours in evaluated if _agree(argo, ours))
    assert all(same[word] > 10 for word in ("Healthy", "Progressing", "Degraded", "Suspended"))


@pytest.mark.parametrize("row", _table("differs_from_argo.yaml"), ids=lambda row: row["of"])
def test_each_row_of_the_table_explains_a_difference(row, evaluated):
    assert any(
        _explains(row, path, argo, ours) for path, argo, ours in evaluated if not _agree(argo, ours)
    )


@pytest.fixture(scope="module")
def flux_rules():
    """Flux' published expressions by group and kind, in Flux' own form."""
    return {_place(row["of"]): _published(row) for row in _table("flux.yaml")}


@pytest.fixture(scope="module")
def flux_evaluated(flux_rules):
    """Each object of their kinds, Flux' own word for it, and its rule."""
    known = [one.object for one in recorded()]
    known += [case.object for _, case in load_library_cases()]
    found = [one for one in known if group_and_kind(one) in flux_rules]
    rules = [flux_rules[group_and_kind(one)] for one in found]
    answers = ask_tools(found, [_expressions(rule) for rule in rules])
    return [(one, answer["flux"]) for one, answer in zip(found, answers, strict=True)]


def test_flux_expressions_say_here_what_flux_itself_says(flux_rules, flux_evaluated, evaluator):
    rules = parse_rules({"healthCheckExprs": list(flux_rules.values())}, "flux")
    here = RuleEvaluator(evaluator, HealthRules(rules))
    wrong = []
    for document, flux in flux_evaluated:
        ours = _FLUX[result(_view(document, here))]
        if ours != ("InProgress" if flux == "Unknown" else flux):
            wrong.append((document, flux, ours))
    assert not wrong
    said = Counter(flux for _, flux in flux_evaluated)
    assert all(said[word] >= 5 for word in ("Current", "Failed")), said
    assert said["InProgress"] + said["Unknown"] >= 5, said


def test_the_library_says_what_flux_publishes_or_the_table_says_why_not(library, flux_evaluated):
    table = _table("differs_from_flux.yaml")
    explained, unexplained = Counter(), []
    for document, flux in flux_evaluated:
        ours = _FLUX[result(_view(document, library))]
        if ours == flux or (flux == "Unknown" and ours == "InProgress"):
            continue
        group, kind = group_and_kind(document)
        rows = [
            row
            for row in table
            if fnmatchcase(f"{kind}.{group}", row["of"])
            and fnmatchcase(flux, row["flux"])
            and fnmatchcase(ours, row["ours"])
            and _NEEDS[row["needs"]](document)
        ]
        explained.update(row["because"] for row in rows)
        if not rows:
            unexplained.append((document, flux, ours))
    assert not unexplained
    assert set(explained) == {row["because"] for row in table}, "a row explains nothing"


def _has_no_condition(document):
    return not any(
        one.get("type") in ("Ready", "Healthy", "Synced")
        for one in (document.get("status") or {}).get("conditions") or ()
    )


def _is_not_installed(document):
    conditions = document["status"]["conditions"]
    return any(one["type"] == "Installed" and one["status"] == "False" for one in conditions)


_NEEDS = {
    "no condition": _has_no_condition,
    "not installed": _is_not_installed,
    "phase": lambda document: "phase" in (document.get("status") or {}),
}


def _published(row):
    group, kind = _place(row["of"])
    found = {"apiVersion": f"{group}/v1", "kind": kind}
    if field := row.get("field"):
        return found | {key: f"{field} == '{row[key]}'" for key in ("failed", "current")}
    reason = f" && e.reason == '{row['reason']}'" if "reason" in row else ""
    every = "status.conditions.filter(e, e.type == '{}').all(e, e.status == '{}'{})"
    return found | {
        "failed": every.format(row["failed"], "False", reason),
        "current": every.format(row["current"], "True", ""),
    }


def _expressions(rule):
    return {key: rule[key] for key in ("failed", "current")}


def _place(text):
    kind, _, group = text.partition(".")
    return group, kind


def _view(document, rules):
    return evaluate(document, answers=rules(document), at=time.time())


def _argo_word(view):
    if view.failed or view.health is Health.RED:
        return "Degraded"
    return _WORDS[result(view)]


def _agree(argo, ours):
    """Suspended and Unknown are no words of ours: no failure, and not current."""
    if argo == "Suspended":
        return ours != "Degraded"
    return ours != "Healthy" if argo == "Unknown" else ours == argo


def _explains(row, path, argo, ours):
    found = ((path, row["of"]), (argo, row["argo"]), (ours, row["ours"]))
    return all(fnmatchcase(text, pattern) for text, pattern in found)

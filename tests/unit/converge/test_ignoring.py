"""What a GitOps tool is told to ignore is no fight."""

from genguard.blame.field_paths import Item
from genguard.converge.contest import Contest, Contested, Level, Party
from genguard.converge.ignoring import argocd_ignores, without_ignored
from tests.cases_loader import table

WEB = {"group": "apps", "kind": "Deployment", "name": "web", "namespace": "shop"}


def level(rules, path=("spec", "replicas"), contest=Contest.OVERWRITTEN, manager="hpa"):
    one = Contested(
        contest, Level.FIGHT, path, (Party("manager", f"{manager} (Update)", manager=manager),)
    )
    (found,) = without_ignored([one], WEB, rules)
    return found.level


def argocd(**rule):
    rule = {"group": "apps", **rule}
    return argocd_ignores([{"kind": "Application", "spec": {"ignoreDifferences": [rule]}}])


@table("converge/argocd.yaml", "rule", "place", "is_ignored")
def test_rules_of_argo_cd(case):
    path = tuple(Item(step) if step == "web" else step for step in case["place"])
    is_note = level(argocd(**case["rule"]), path) is Level.NOTE
    assert is_note == case["is_ignored"], case.because


def test_no_tool_ignores_a_webhook_that_never_settles():
    rules = argocd(jsonPointers=["/spec"])
    assert level(rules, contest=Contest.NEVER_SETTLES) is Level.FIGHT

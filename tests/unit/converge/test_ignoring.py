"""What a GitOps tool is told to ignore is no fight."""

import pytest

from genguard.blame.places import Item
from genguard.converge.contest import Contest, Contested, Level, Party
from genguard.converge.ignoring import (
    argocd_ignores,
    flux_ignores,
    without_ignored,
)

WEB = {"group": "apps", "kind": "Deployment", "name": "web", "namespace": "shop"}
IMAGE = ("spec", "template", "spec", "containers", Item("web"), "image")


def level(rules, place=("spec", "replicas"), contest=Contest.OVERWRITTEN, manager="hpa"):
    one = Contested(
        contest, Level.FIGHT, place, (Party("manager", f"{manager} (Update)", manager=manager),)
    )
    (found,) = without_ignored([one], WEB, rules)
    return found.level


def argocd(**rule):
    rule = {"group": "apps", **rule}
    return argocd_ignores([{"kind": "Application", "spec": {"ignoreDifferences": [rule]}}])


@pytest.mark.parametrize(
    ("rule", "place", "is_ignored", "because"),
    [
        ({"jsonPointers": ["/spec/replicas"]}, ("spec", "replicas"), True, "the field"),
        ({"jsonPointers": ["/spec"]}, ("spec", "replicas"), True, "what it is in"),
        ({"jsonPointers": ["/spec/replicas/x"]}, ("spec", "replicas"), False, "what is below it"),
        ({"jsonPointers": ["/spec/paused"]}, ("spec", "replicas"), False, "another field"),
        (
            {"group": "apps", "kind": "StatefulSet", "jsonPointers": ["/spec/replicas"]},
            ("spec", "replicas"),
            False,
            "another kind",
        ),
        (
            {"kind": "Deployment", "name": "other", "jsonPointers": ["/spec/replicas"]},
            ("spec", "replicas"),
            False,
            "another object",
        ),
        (
            {"jqPathExpressions": [".spec.template.spec.containers[].image"]},
            IMAGE,
            True,
            "each item of a list",
        ),
        (
            {"jqPathExpressions": ['.spec.template.spec.containers[] | select(.name == "a")']},
            IMAGE,
            False,
            "an expression that is no plain path may mean less",
        ),
        ({"group": "", "jsonPointers": ["/spec"]}, ("spec", "replicas"), False, "the core group"),
        (
            {"group": "*", "kind": "Deploy*", "name": "", "jsonPointers": ["/spec"]},
            ("spec", "replicas"),
            True,
            "globs, and no name is any",
        ),
        ({"managedFieldsManagers": ["hpa"]}, ("spec", "replicas"), True, "all of a manager"),
        ({"managedFieldsManagers": ["vpa"]}, ("spec", "replicas"), False, "another manager"),
    ],
)
def test_rules_of_argo_cd(rule, place, is_ignored, because):
    assert (level(argocd(**rule), place) is Level.NOTE) == is_ignored, because


def test_rules_of_flux():
    ignore = [{"paths": ["/spec/replicas"], "target": {"kind": "Deployment", "name": "we.*"}}]
    release = {"kind": "HelmRelease", "spec": {"driftDetection": {"ignore": ignore}}}
    rules = flux_ignores([release])
    assert level(rules) is Level.NOTE
    assert level(rules, ("spec", "paused")) is Level.FIGHT


def test_no_tool_ignores_a_webhook_that_never_settles():
    rules = argocd(jsonPointers=["/spec"])
    assert level(rules, contest=Contest.NEVER_SETTLES) is Level.FIGHT

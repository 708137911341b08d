"""Checks of scope: which requests the rules of a webhook match, and which they miss."""

from collections.abc import Callable, Iterator
from typing import Final

from genguard.admission.matching import EVERYTHING
from genguard.linting.check import Check, Level, LintContext, Problem, webhook_check
from genguard.linting.hook import Hook, never_matches, texts
from genguard.objects.fields import mapping, text


def _covering(
    name: str, *, level: Callable[[Hook], Level], applies: Callable[[Hook], bool] = lambda _: True
) -> Check:
    """Make a check that reports each rule of a webhook that matches one of its targets."""

    def find_problems(hook: Hook, _: LintContext) -> Iterator[Problem]:
        for field in hook.covering(*check.declared.targets) if applies(hook) else ():
            yield Problem(level(hook), field, "matches")

    check = Check(name, find_problems)
    return check


def _error_if_it_fails(hook: Hook) -> Level:
    return Level.ERROR if hook.fails else Level.WARNING


def _error_unless(hook: Hook, *, narrow: bool) -> Level:
    return Level.ERROR if hook.fails and not narrow else Level.WARNING


pods_binding: Final = _covering("pods-binding", level=_error_if_it_fails)
node_leases: Final = _covering(
    "node-leases",
    level=_error_if_it_fails,
    applies=lambda hook: hook.selects_namespace("kube-node-lease") and not hook.selects_objects,
)
nodes: Final = _covering(
    "nodes",
    level=lambda hook: Level.ERROR if hook.fails else Level.INFO,
    applies=lambda hook: not (hook.conditional or hook.selects_objects),
)
auth_reviews: Final = _covering(
    "auth-reviews",
    level=lambda hook: _error_unless(
        hook, narrow=hook.conditional or hook.requires_namespace_label
    ),
    applies=lambda hook: not hook.requires_object_label,
)
made_by_controllers: Final = _covering(
    "made-by-controllers",
    level=lambda _: Level.WARNING,
    applies=lambda hook: hook.mutates and not (hook.own_phase or hook.requires_object_label),
)
status_mutated: Final = _covering(
    "status-mutated",
    level=lambda _: Level.WARNING,
    applies=lambda hook: hook.mutates and not hook.own_phase,
)


@webhook_check
def wildcard_resources(hook: Hook, _: LintContext) -> Iterator[Problem]:
    """Report each wildcard among the resources of the rules."""
    for position, rule in enumerate(hook.rules):
        for index, name in enumerate(rule["resources"]):
            if name not in ("*", "*/*"):
                continue
            every = EVERYTHING in rule["apiGroups"]
            groups = ", ".join(group or "core" for group in rule["apiGroups"])
            scope = "every resource of every group" if every else f"all of {groups}"
            policy = " with failurePolicy Fail" if hook.fails else ""
            is_narrow = hook.requires_object_label or hook.requires_namespace_label
            level = _error_unless(hook, narrow=is_narrow or not every)
            if hook.requires_object_label and rule["operations"] == ("DELETE",):
                level = Level.INFO  # a guard against deletion of what has its label
            field = hook.field(f"rules[{position}].resources[{index}]")
            yield Problem(level, field, "matches", {"name": name, "scope": scope, "policy": policy})


@webhook_check
def match_policy_exact(hook: Hook, _: LintContext) -> Iterator[Problem]:
    """Report matchPolicy Exact, unless the rules match every API version."""
    rules = hook.body.get("rules")
    matches_every_version = isinstance(rules, list) and all(
        "*" in texts(mapping(rule).get("apiVersions")) for rule in rules
    )
    if text(hook.body.get("matchPolicy")) == "Exact" and not matches_every_version:
        yield Problem(Level.WARNING, hook.field("matchPolicy"), "exact")


@webhook_check
def status_subresource_missing(hook: Hook, _: LintContext) -> Iterator[Problem]:
    """Report a webhook with `status` in its name or path that is never called for status."""
    names = f"{text(hook.body.get('name'))} {hook.path}".lower()
    subresources = {name.partition("/")[2] for rule in hook.rules for name in rule["resources"]}
    if "status" in names and subresources and not subresources & {"status", "*"}:
        yield Problem(Level.WARNING, hook.field("rules"), "missing")


@webhook_check
def rule_never_matches(hook: Hook, _: LintContext) -> Iterator[Problem]:
    """Report resources of a rule whose scope is not theirs."""
    for position, rule in enumerate(hook.rules):
        for index, name in enumerate(rule["resources"]):
            if any(never_matches(group, name, rule["scope"]) for group in rule["apiGroups"]):
                field = hook.field(f"rules[{position}].resources[{index}]")
                yield Problem(Level.WARNING, field, "never", {"name": name, "scope": rule["scope"]})

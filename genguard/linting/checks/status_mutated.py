"""Webhooks that mutate status: decoding into old types loses newer fields."""

from collections.abc import Iterator
from typing import Final

from genguard.linting.check import Check, Level, LintContext, Problem
from genguard.linting.hook import Hook, Target

_TARGET: Final = Target("*", "*", "status", "UPDATE")


def find_problems(hook: Hook, _: LintContext) -> Iterator[Problem]:
    """Report each rule of a mutating webhook that matches a status subresource."""
    if not hook.mutates or hook.own_phase:
        return
    for field in hook.covering(_TARGET):
        yield Problem(
            Level.WARNING,
            field,
            "mutates status: patch single fields of the raw object instead of encoding a decoded "
            "one, which loses unknown fields, or leave out the subresource",
        )


CHECK: Final = Check(
    "status-mutated",
    "KEP-5067: a webhook built with older types drops status.observedGeneration on each write "
    "(endless loop); kubernetes-sigs/kueue#2878, kubernetes/kubernetes#96688",
    find_problems,
)

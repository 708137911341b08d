"""A status that is no subresource: writes of status move metadata.generation."""

from collections.abc import Iterator
from typing import Final

from genguard.linting.check import DefinitionCheck, Level, Problem
from genguard.linting.definition import DefinedVersion


def find_problems(version: DefinedVersion) -> Iterator[Problem]:
    """Report a version whose schema has a status, but which has no status subresource."""
    if version.status is None or version.has_subresource:
        return
    yield Problem(
        Level.WARNING,
        version.field("subresources.status"),
        f"{version.name} has a status, but no status subresource: each write of status raises "
        "metadata.generation, so observedGeneration is always behind, and "
        "GenerationChangedPredicate lets status writes pass: add `subresources: {status: {}}`, "
        "and let the controller write to /status",
    )


CHECK: Final = DefinitionCheck(
    "status-no-subresource",
    "customresource/strategy.go:PrepareForUpdate: without the subresource, status counts for "
    "metadata.generation as spec does; kubernetes/autoscaler#5675, "
    "actions/actions-runner-controller#1643 (generation 50,597)",
    find_problems,
)

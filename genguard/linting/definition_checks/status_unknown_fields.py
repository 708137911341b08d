"""A status that stores whatever is sent: nothing checks names and types of its fields."""

from collections.abc import Iterator
from typing import Final

from genguard.linting.check import DefinitionCheck, Level, Problem
from genguard.linting.definition import PRESERVES, DefinedVersion

_WHY: Final = (
    "a misspelt observedGeneration, or one that is a text, is stored and found by nobody, and "
    "server-side apply knows no keys of lists: specify the fields, and remove it"
)


def find_problems(version: DefinedVersion) -> Iterator[Problem]:
    """Report x-kubernetes-preserve-unknown-fields on status, or above it where it is open."""
    status = version.status
    if status is not None:
        if status.get(PRESERVES) is True:
            message = f"status takes fields that the schema does not know: {_WHY}"
            yield Problem(Level.INFO, f"{status.path}.{PRESERVES}", message)
    elif version.schema.get(PRESERVES) is True:
        message = f"the object, status too, takes fields that the schema does not know: {_WHY}"
        yield Problem(Level.INFO, f"{version.schema.path}.{PRESERVES}", message)


CHECK: Final = DefinitionCheck(
    "status-unknown-fields",
    "apiextensions.k8s.io/v1 JSONSchemaProps: x-kubernetes-preserve-unknown-fields stops the API "
    "server from dropping fields that are not specified; it does not validate them",
    find_problems,
)

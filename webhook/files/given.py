"""Files given on the command line: custom resources (--crds), other webhooks (--webhooks)."""

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, Final

from genguard.admission.matching import Conditions, read_configurations, read_policies
from genguard.detection.mutators import Mutators
from genguard.formats.documents import LONGEST_LINE, ReadObject, Unreadable, bounded, read_documents
from genguard.generation.custom import BadDefinitionError, CustomResource, from_definition


class BadFileError(Exception):
    """A file given on the command line cannot be used; the message says which, where and why."""


def load_definitions(path: Path) -> tuple[CustomResource, ...]:
    """Read the custom resources of a file: JSON or YAML, one document, several, or a List.

    Raises BadFileError.
    """
    found: list[CustomResource] = []
    for item in read_definitions(path):
        try:
            found += from_definition(item)
        except BadDefinitionError as error:
            raise BadFileError(f"--crds {path}: {error}") from error
    return tuple(found)


def read_definitions(path: Path) -> Iterator[dict[str, Any]]:
    """Read each CustomResourceDefinition of a file, unchanged; raises BadFileError."""
    return _items(path, "--crds", {"CustomResourceDefinition"})


_REGISTRATIONS: Final = frozenset(
    {
        "MutatingWebhookConfiguration",
        "ValidatingWebhookConfiguration",
        "MutatingAdmissionPolicy",
        "MutatingAdmissionPolicyBinding",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
    }
)


def load_mutators(webhooks: Path | None, conditions: Conditions) -> Mutators:
    """Read the mutating webhooks and policies of --webhooks, which may hold validating ones, too.

    Raises BadFileError.
    """
    if webhooks is None:
        return Mutators(conditions=conditions)
    documents = list(_items(webhooks, "--webhooks", _REGISTRATIONS))
    return Mutators(read_configurations(documents), read_policies(documents), conditions)


def read_of_kind(path: Path, flag: str, kind: str) -> tuple[dict[str, Any], ...]:
    """Read the objects of this kind from a file that must have one; raises BadFileError."""
    found = tuple(
        document.value for document in _documents(path, flag) if document.value.get("kind") == kind
    )
    if not found:
        raise BadFileError(f"{flag} {path}: it has no {kind}")
    return found


def read_registrations(path: Path) -> tuple[dict[str, Any], ...]:
    """Read each registration of --registrations-file, unchanged; raises BadFileError."""
    return tuple(_items(path, "--registrations-file", _REGISTRATIONS))


def _items(path: Path, flag: str, kinds: Collection[str]) -> Iterator[dict[str, Any]]:
    """Read the objects of a file; raises BadFileError for a kind that is not expected."""
    for document in _documents(path, flag):
        kind = document.value.get("kind")
        if kind not in kinds:
            expected = " or ".join(sorted(kinds))
            raise BadFileError(f"{flag} {path}: expected {expected}, found {kind}")
        yield document.value


def _documents(path: Path, flag: str) -> Iterator[ReadObject]:
    """Read the objects of a file with their lines; raises BadFileError."""
    try:
        with path.open("rb") as stream:
            found = list(read_documents(bounded(stream, LONGEST_LINE)))
    except OSError as error:
        raise BadFileError(f"{flag} {path}: {error.strerror}") from error
    for document in found:
        if isinstance(document, Unreadable):
            raise BadFileError(f"{flag} {path}: {document}")
        yield document

"""Files given on the command line: custom resources (--crds), other webhooks (--webhooks)."""

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, Final

from webhook.detection.matching import Conditions
from webhook.detection.policies import BINDING, POLICY, read_policies
from webhook.detection.suspects import Suspects, read_configurations
from webhook.generation.custom import BadDefinitionError, CustomResource, from_definition
from webhook.objects.documents import Unreadable, read_documents
from webhook.objects.lines import LONGEST_LINE, bounded


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
        POLICY,
        BINDING,
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
    }
)


def load_registrations(path: Path, conditions: Conditions) -> Suspects:
    """Read the mutating webhooks and policies of a file, which may hold validating ones, too.

    Raises BadFileError.
    """
    documents = list(_items(path, "--webhooks", _REGISTRATIONS))
    return Suspects(read_configurations(documents), read_policies(documents), conditions)


def _items(path: Path, flag: str, kinds: Collection[str]) -> Iterator[dict[str, Any]]:
    """Read the objects of a file; raises BadFileError for a kind that is not expected."""
    try:
        with path.open("rb") as stream:
            found = list(read_documents(bounded(stream, LONGEST_LINE)))
    except OSError as error:
        raise BadFileError(f"{flag} {path}: {error.strerror}") from error
    for one in found:
        if isinstance(one, Unreadable):
            raise BadFileError(f"{flag} {path}: {one}")
        kind = one.value.get("kind")
        if kind not in kinds:
            expected = " or ".join(sorted(kinds))
            raise BadFileError(f"{flag} {path}: expected {expected}, found {kind}")
        yield one.value

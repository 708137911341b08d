"""Files given on the command line: custom resources (--crds), other webhooks (--webhooks).

Manifests of webhooks and policies that no API lists (--static-webhooks) as well.
"""

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from genguard.detection.matching import Conditions
from genguard.detection.policies import BINDING, POLICY, read_policies
from genguard.detection.static_manifests import (
    BadManifestError,
    Identity,
    check_manifest,
    read_static,
)
from genguard.detection.suspects import StaticAdmission, Suspects, read_configurations
from genguard.formats.documents import ReadObject, Unreadable, read_documents
from genguard.formats.lines import LONGEST_LINE, bounded
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
        POLICY,
        BINDING,
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
    }
)


def load_registrations(
    path: Path, conditions: Conditions, static: StaticAdmission | None = None
) -> Suspects:
    """Read the mutating webhooks and policies of a file, which may hold validating ones, too.

    Raises BadFileError.
    """
    documents = list(_items(path, "--webhooks", _REGISTRATIONS))
    registered, policies = read_configurations(documents), read_policies(documents)
    return Suspects(registered, policies, conditions, static)


def load_suspects(
    webhooks: Path | None, static_webhooks: Sequence[Path], conditions: Conditions
) -> Suspects:
    """Read the suspects of --webhooks and --static-webhooks. Raises BadFileError."""
    static = load_static(static_webhooks)
    if webhooks is None:
        return Suspects(conditions=conditions, static=static)
    return load_registrations(webhooks, conditions, static)


def read_of_kind(path: Path, flag: str, kind: str) -> tuple[dict[str, Any], ...]:
    """Read the objects of this kind of a file, of which there must be one; raises BadFileError."""
    found = tuple(one.value for one in _documents(path, flag) if one.value.get("kind") == kind)
    if not found:
        raise BadFileError(f"{flag} {path}: it has no {kind}")
    return found


def read_registrations(path: Path) -> tuple[dict[str, Any], ...]:
    """Read each registration of --registrations-file, unchanged; raises BadFileError."""
    return tuple(_items(path, "--registrations-file", _REGISTRATIONS))


_STATIC_FLAG: Final = "--static-webhooks"
_NONE: Final = (Path("none"),)
_MOST_OF_CONFIGMAP: Final = 1024 * 1024
"""Bytes (pkg/apis/core/types.go: MaxSecretSize, which holds for ConfigMaps as well)."""
_MANIFESTS: Final = frozenset({".yaml", ".yml", ".json"})
"""What the API server reads (apiserver pkg/admission/plugin/manifest/loader.go:LoadFiles)."""


def load_static(paths: Sequence[Path]) -> StaticAdmission | None:
    """Read static webhooks and policies from files, and from the manifests in folders.

    None where no path is given; nothing acts where the only path is `none`. Raises BadFileError.
    """
    if not paths:
        return None
    if tuple(paths) == _NONE:
        return read_static(())
    found: dict[tuple[str, str], ReadObject] = {}
    places: dict[tuple[str, str], str] = {}
    bound: dict[str, str] = {}
    for file in (file for path in paths for file in _manifests(path)):
        for one in _documents(file, _STATIC_FLAG):
            place = f"{file}:{one.line}"
            known = _checked(one, place)
            key = known.kind, known.name
            if key in found:
                text = f"{known.kind} of the same name as at {places[key]}: remove one of them"
                raise BadFileError(f"{_STATIC_FLAG} {place}: {text}")
            found[key], places[key] = one, place
            if known.bound:
                bound[known.bound] = place
    for policy, place in bound.items():
        if (POLICY, policy) not in found:
            text = f"{BINDING} of a policy that is not given: give its file as well"
            raise BadFileError(f"{_STATIC_FLAG} {place}: {text}")
    return read_static(one.value for one in found.values())


def read_manifests(paths: Sequence[Path]) -> dict[str, str] | None:
    """Return the text of each file that `load_static` reads, by name; raises BadFileError.

    None where no path is given, and nothing where the only path is `none`.
    """
    if load_static(paths) is None:
        return None
    found: dict[str, str] = {}
    for file in (file for path in paths if path not in _NONE for file in _manifests(path)):
        if file.name in found or file.suffix.lower() not in _MANIFESTS:
            text = "a name of its own that ends with .yaml, .yml or .json, as each file needs"
            raise BadFileError(f"{_STATIC_FLAG} {file}: give it {text}")
        found[file.name] = file.read_text("utf-8")
    if sum(len(one.encode()) for one in found.values()) > _MOST_OF_CONFIGMAP:
        raise BadFileError(f"{_STATIC_FLAG}: more than the 1 MiB that a ConfigMap holds")
    return found


def _checked(one: ReadObject, place: str) -> Identity:
    try:
        return check_manifest(one.value)
    except BadManifestError as error:
        raise BadFileError(f"{_STATIC_FLAG} {place}: {error}") from error


def _manifests(path: Path) -> Iterator[Path]:
    """Yield a file itself, or the manifests in a folder by name, without those of folders in it."""
    try:
        if not path.is_dir():
            yield path
            return
        found = sorted(one for one in path.iterdir() if one.suffix.lower() in _MANIFESTS)
        files = [one for one in found if not one.is_dir()]
    except OSError as error:
        raise BadFileError(f"{_STATIC_FLAG} {path}: {error.strerror}") from error
    if not files:
        raise BadFileError(
            f"{_STATIC_FLAG} {path}: no .yaml, .yml or .json file is in it; "
            "give none instead where the API server has no static webhooks"
        )
    yield from files


def _items(path: Path, flag: str, kinds: Collection[str]) -> Iterator[dict[str, Any]]:
    """Read the objects of a file; raises BadFileError for a kind that is not expected."""
    for one in _documents(path, flag):
        kind = one.value.get("kind")
        if kind not in kinds:
            expected = " or ".join(sorted(kinds))
            raise BadFileError(f"{flag} {path}: expected {expected}, found {kind}")
        yield one.value


def _documents(path: Path, flag: str) -> Iterator[ReadObject]:
    """Read the objects of a file with their lines; raises BadFileError."""
    try:
        with path.open("rb") as stream:
            found = list(read_documents(bounded(stream, LONGEST_LINE)))
    except OSError as error:
        raise BadFileError(f"{flag} {path}: {error.strerror}") from error
    for one in found:
        if isinstance(one, Unreadable):
            raise BadFileError(f"{flag} {path}: {one}")
        yield one

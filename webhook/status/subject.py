"""An object as its status is read: identity, generation, and fields whose type is checked."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from webhook.objects.fields import ABSENT
from webhook.objects.instant import parse_time
from webhook.status.reason import Reason, type_word

COUNT: Final = "a whole number from 0 on"
_NOTHING: Final[dict[str, Any]] = {}

DEADLINE: Final = 600.0
"""Seconds: the default of Deployment's progressDeadlineSeconds (apps/v1), used where a kind has no
deadline of its own."""


class UnreadableError(ValueError):
    """A field that a rule needs has the wrong type; it never leaves evaluate()."""

    def __init__(self, path: str, have: Any, want: str) -> None:
        super().__init__(path)
        self.reason: Final = Reason(path, type_word(have), want)


class Subject(msgspec.Struct, frozen=True, gc=False):
    """One object. `spec` and `status` are empty where absent or null: see `has_status`."""

    group: str
    version: str
    kind: str
    namespace: str
    name: str
    uid: str
    generation: int | None
    observed: Any
    """status.observedGeneration as it stands, or ABSENT."""
    deleting: bool
    metadata: dict[str, Any]
    spec: dict[str, Any]
    status: dict[str, Any]
    has_status: bool
    """False where status is absent or null."""
    wrong: Reason | None
    """The first of kind, apiVersion, metadata, generation and status with the wrong type."""
    wrong_spec: Reason | None
    """A spec that is no object; custom resources may have one."""
    at: float

    def count(self, key: str) -> int:
        """A counter of status; absent and null are 0, as the API writes it (omitempty).

        Raises UnreadableError when it is anything but a whole number from 0 on.
        """
        value = self.status.get(key)
        if value is None:
            return 0
        if type(value) is int and value >= 0:
            return value
        raise UnreadableError(f"status.{key}", value, COUNT)

    def desired(self, key: str = "replicas", default: int = 1) -> int:
        """A number of spec; absent and null are the default of the API."""
        value = self.spec.get(key)
        if value is None:
            return default
        if type(value) is int and value >= 0:
            return value
        raise UnreadableError(f"spec.{key}", value, COUNT)

    def flag(self, key: str) -> bool:
        """A boolean of spec; absent and null are false."""
        value = self.spec.get(key)
        if value is None or value is False:
            return False
        if value is True:
            return True
        raise UnreadableError(f"spec.{key}", value, "a boolean")

    def word(self, section: str, key: str, default: str = "") -> str:
        """A text of `spec` or `status`; absent, null and empty are the default."""
        value = (self.spec if section == "spec" else self.status).get(key)
        if not value and (value is None or value == ""):
            return default
        if isinstance(value, str):
            return value
        raise UnreadableError(f"{section}.{key}", value, "a text")

    def inner(self, section: str, *keys: str) -> dict[str, Any]:
        """An object inside `spec` or `status`, empty where a step is absent or null."""
        found: Any = self.spec if section == "spec" else self.status
        path = section
        for key in keys:
            path += f".{key}"
            found = found.get(key)
            if found is None:
                return _NOTHING
            if not isinstance(found, dict):
                raise UnreadableError(path, found, "an object")
        return found  # type: ignore[no-any-return]  # checked at each step

    def overdue(self, since: Any) -> bool:
        """Whether an RFC 3339 time lies more than DEADLINE before now; False when it is none."""
        time = parse_time(since) if isinstance(since, str) else None
        return time is not None and self.at - time.timestamp() > DEADLINE


def read_subject(document: Mapping[str, Any], at: float) -> Subject:
    """Read one decoded object; what has the wrong type is told in `wrong`, and never raised."""
    kind, wrong_kind = _text(document, "kind")
    version, wrong_version = _text(document, "apiVersion")
    metadata, wrong_metadata = _object(document, "metadata")
    spec, wrong_spec = _object(document, "spec")
    status, wrong_status = _object(document, "status")
    wrong = wrong_kind or wrong_version or wrong_metadata or wrong_status
    generation = metadata.get("generation")
    if type(generation) is not int:
        if generation is not None:
            wrong = wrong or Reason("metadata.generation", type_word(generation), "a whole number")
        generation = None
    group, _, version = version.rpartition("/")
    namespace, name, uid = metadata.get("namespace"), metadata.get("name"), metadata.get("uid")
    return Subject(
        group,
        version,
        kind,
        namespace if isinstance(namespace, str) else "",
        name if isinstance(name, str) else "",
        uid if isinstance(uid, str) else "",
        generation,
        status.get("observedGeneration", ABSENT),
        metadata.get("deletionTimestamp") is not None,
        metadata,
        spec,
        status,
        document.get("status") is not None,
        wrong,
        wrong_spec,
        at,
    )


def _text(document: Mapping[str, Any], key: str) -> tuple[str, Reason | None]:
    value = document.get(key, ABSENT)
    if isinstance(value, str) and value:
        return value, None
    return "", Reason(key, "empty" if value == "" else type_word(value), "a text")


def _object(document: Mapping[str, Any], key: str) -> tuple[dict[str, Any], Reason | None]:
    value = document.get(key)
    if isinstance(value, dict):
        return value, None
    return _NOTHING, None if value is None else Reason(key, type_word(value), "an object")

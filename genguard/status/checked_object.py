"""Reads one decoded object for the rules of status: every field is type-checked when it is read."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Self

import msgspec

from genguard.formats.nesting import UnreadableObject
from genguard.objects.fields import ABSENT, get, items, text
from genguard.objects.metadata import parse_time
from genguard.objects.observed import generation_number
from genguard.status.view import Blocks, Reason, short_word, type_word

COUNT: Final = "a whole number of at least 0"
_NOTHING: Final[dict[str, Any]] = {}

DEFAULT_DEADLINE: Final = 600.0
"""Seconds. The default of Deployment's progressDeadlineSeconds (apps/v1), used for every kind that
has no deadline of its own."""


class WrongTypeError(ValueError):
    """A field that a rule reads has the wrong type. evaluate() catches it and reports `reason`."""

    def __init__(self, path: str, have: Any, want: str) -> None:
        super().__init__(path)
        self.reason: Final = Reason(path, type_word(have), want)


Sections = Sequence[tuple[str, Mapping[str, Any]]]
"""Path and content of each object that holds standard fields; the first one is preferred."""


class CheckedObject(msgspec.Struct, frozen=True, gc=False):
    """One object. `metadata`, `spec` and `status` are {} when absent, null or of the wrong type."""

    group: str
    version: str
    kind: str
    namespace: str
    name: str
    uid: str
    generation: int | None
    observed: Any
    """status.observedGeneration, of any type, or ABSENT."""
    deleting: bool
    metadata: dict[str, Any]
    spec: dict[str, Any]
    status: dict[str, Any]
    has_status: bool
    """False when status is absent or null."""
    wrong: Reason | None
    """The first wrong type among kind, apiVersion, metadata, status and metadata.generation."""
    wrong_spec: Reason | None
    """Set when spec is not a JSON object; a custom resource may have such a spec."""
    at: float

    @classmethod
    def of(cls, document: Mapping[str, Any], at: float) -> Self:
        """Read one decoded object; never raises: `wrong` and `wrong_spec` name wrong types."""
        kind, wrong_kind = _text(document, "kind")
        version, wrong_version = _text(document, "apiVersion")
        metadata, wrong_metadata = _object(document, "metadata")
        spec, wrong_spec = _object(document, "spec")
        status, wrong_status = _object(document, "status")
        wrong = wrong_kind or wrong_version or wrong_metadata or wrong_status
        number = metadata.get("generation")
        generation = number if type(number) is int else None
        if number is not None and generation is None:
            wrong = wrong or Reason("metadata.generation", type_word(number), "a whole number")
        group, _, version = version.rpartition("/")
        return cls(
            group,
            version,
            kind,
            text(metadata.get("namespace")),
            text(metadata.get("name")),
            text(metadata.get("uid")),
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

    def count(self, key: str) -> int:
        """Return a counter of status; absent and null are 0, as the API omits zeros (omitempty).

        Raises WrongTypeError for anything but a whole number of at least 0.
        """
        return _count(self.status.get(key), 0, "status", key)

    def desired(self, key: str = "replicas") -> int:
        """Return a number of spec; absent and null are 1. Raises WrongTypeError."""
        return _count(self.spec.get(key), 1, "spec", key)

    def flag(self, key: str) -> bool:
        """Return a boolean of spec; absent and null are False. Raises WrongTypeError."""
        value = self.spec.get(key)
        if value is None or isinstance(value, bool):
            return value or False
        raise WrongTypeError(f"spec.{key}", value, "a boolean")

    def word(self, section: str, key: str, default: str = "") -> str:
        """Return a string of `spec` or `status`; absent, null and "" give `default`.

        Raises WrongTypeError.
        """
        value = (self.spec if section == "spec" else self.status).get(key)
        if value is None or isinstance(value, str):
            return value or default
        raise WrongTypeError(f"{section}.{key}", value, "a text")

    def inner(self, section: str, *keys: str) -> dict[str, Any]:
        """Return the object below `spec` or `status` at these keys; {} when absent or null.

        Raises WrongTypeError.
        """
        found: Any = self.spec if section == "spec" else self.status
        path = section
        for key in keys:
            path += f".{key}"
            found = found.get(key)
            if found is None:
                return _NOTHING
            if not isinstance(found, dict):
                raise WrongTypeError(path, found, "an object")
        return found  # type: ignore[no-any-return]  # checked at each step

    def overdue(self, since: Any, more: float = 0.0) -> bool:
        """Whether an RFC 3339 time is more than DEFAULT_DEADLINE ago; False when it is no time.

        `more` seconds are added to the deadline.
        """
        time = parse_time(since) if isinstance(since, str) else None
        return time is not None and self.at - time.timestamp() > DEFAULT_DEADLINE + more

    @property
    def sections(self) -> Sections:
        """`status` (preferred), `status.meta` and `metadata.status`, as far as they are objects.

        The API server drops the last one: only files and other stores can have it. A value of
        another type is somebody else's field.
        Source: Improve .status, "Location".
        """
        meta, within = self.status.get("meta"), self.metadata.get("status")
        known = ("status", self.status), ("status.meta", meta), ("metadata.status", within)
        return [(path, part) for path, part in known if isinstance(part, dict)]

    @property
    def observed_generation(self) -> int | None:
        """status.observedGeneration, or else the highest one of the conditions."""
        own = generation_number(self.observed)
        if own is not None:
            return own
        found = (
            generation_number(get(item, "observedGeneration"))
            for _, part in self.sections
            for item in items(part.get("conditions"))
        )
        return max((number for number in found if number is not None), default=None)

    @property
    def reconciled_generation(self) -> tuple[str, int] | None:
        """Path and value of the generation that the controller says it has finished with.

        The first whole number of the standard sections counts.
        """
        for path, part in self.sections:
            value = part.get("reconciledGeneration")
            if type(value) is int:
                return f"{path}.reconciledGeneration", value
        return None

    def why_unobserved(self, *, always_written: bool) -> Reason | None:
        """Return why status.observedGeneration is not the current generation; None when it is.

        always_written  the kind's controller always writes it, so an absent value blocks.

        Null always blocks: the field was cleared or never filled in. Every other number blocks too:
        a lower one (also 0, and Flux's -1) is behind, and a higher one came with a restored or
        forged status.
        """
        observed, generation = self.observed, self.generation
        if observed == generation and type(observed) is int:
            return None
        if generation is None:
            return None
        if observed is ABSENT and not always_written:
            return None
        if observed is ABSENT or observed is None:
            return Reason("status.observedGeneration", observed, str(generation))
        number = generation_number(observed)
        if number == generation:
            return None
        have = short_word(observed) if number is None else number
        note = "ahead of the generation" if number is not None and number > generation else ""
        return Reason("status.observedGeneration", have, str(generation), note)

    def conditions(self, *, everywhere: bool = False) -> "Conditions":
        """Index status.conditions by type; raises WrongTypeError when the list is malformed.

        everywhere  those of all standard sections
        """
        return Conditions.of(*(self.sections if everywhere else self.sections[:1]))


def _count(value: Any, default: int, section: str, key: str) -> int:
    if type(value) is int and value >= 0:
        return value
    if value is None:
        return default
    raise WrongTypeError(f"{section}.{key}", value, COUNT)


def objects_of(listed: Any, at: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the objects of a list, which may be absent, with their index; raises WrongTypeError."""
    if listed is not None and not isinstance(listed, list):
        raise WrongTypeError(at, listed, "a list")
    for index, item in enumerate(listed or ()):
        if not isinstance(item, dict):
            raise WrongTypeError(f"{at}[{index}]", item, "an object")
        yield index, item


def _text(document: Mapping[str, Any], key: str) -> tuple[str, Reason | None]:
    value = document.get(key, ABSENT)
    if isinstance(value, str) and value:
        return value, None
    return "", Reason(key, "empty" if value == "" else type_word(value), "a text")


def _object(document: Mapping[str, Any], key: str) -> tuple[dict[str, Any], Reason | None]:
    value = document.get(key)
    if isinstance(value, dict):
        return value, None
    if value is None:
        return _NOTHING, None
    note = value.why if isinstance(value, UnreadableObject) else ""
    return _NOTHING, Reason(key, type_word(value), "an object", note)


class Condition(msgspec.Struct, frozen=True, gc=False):
    """One entry of a list of conditions: the fields that rules read."""

    within: str
    """The path of the list: `status.conditions`."""
    type: str
    status: Any
    """True, False or Unknown; some controllers write other words."""
    reason: str
    observed: Any
    """Its own observedGeneration, of any type, or ABSENT."""
    since: Any
    """lastTransitionTime, of any type, or ABSENT."""

    @classmethod
    def of(cls, name: str, item: Mapping[str, Any], within: str = "status.conditions") -> Self:
        """Read an entry of the list `within`, whose type is `name`."""
        return cls(
            within,
            name,
            item.get("status", ABSENT),
            text(item.get("reason")),
            item.get("observedGeneration", ABSENT),
            item.get("lastTransitionTime", ABSENT),
        )

    @property
    def path(self) -> str:
        """`status.conditions[Ready]`."""
        return f"{self.within}[{self.type}]"

    def stale(self, generation: int | None) -> bool:
        """Whether its observedGeneration is another generation; without one it is current."""
        if self.observed is ABSENT or generation is None or not self.observed:
            return False
        return generation_number(self.observed) != generation

    @property
    def note(self) -> str:
        """Its reason, as far as it may be shown."""
        return short_word(self.reason) if self.reason else ""

    def blocking(self, want: str, blocks: Blocks = Blocks.BOTH) -> Reason:
        """`status.conditions[Ready] False, want True: ContainersNotReady`."""
        return Reason(self.path, short_word(self.status), want, self.note, blocks)

    def stale_reason(self, generation: int | None, blocks: Blocks = Blocks.BOTH) -> Reason:
        """`status.conditions[Ready].observedGeneration 2, want 3`."""
        observed = generation_number(self.observed)
        have = short_word(self.observed) if observed is None else observed
        return Reason(f"{self.path}.observedGeneration", have, str(generation), "", blocks)


class Conditions(dict[str, Condition]):
    """Conditions by type. If a type occurs twice, the first entry counts."""

    def true(self, name: str) -> Condition | None:
        """Return the condition of a type if its status is True, for any generation, or None."""
        found = self.get(name)
        return found if found is not None and found.status == "True" else None

    @classmethod
    def of(cls, *sections: tuple[str, Mapping[str, Any]]) -> Self:
        """Index the `conditions` of each section by type; absent and null are empty.

        If several sections have a type, the first section counts. Raises WrongTypeError, with the
        path of what is malformed.
        """
        found = cls()
        for path, part in sections:
            at = f"{path}.conditions"
            for index, item in objects_of(part.get("conditions"), at):
                name = item.get("type")
                if not isinstance(name, str):
                    raise WrongTypeError(f"{at}[{index}].type", item.get("type", ABSENT), "a text")
                if name not in found:
                    found[name] = Condition.of(name, item, at)
        return found

    def why_not_true(self, name: str, generation: int | None) -> Reason | None:
        """Return why a condition is not True for the current generation; None when it is."""
        found = self.get(name)
        if found is None:
            return Reason(f"status.conditions[{name}]", ABSENT, "True")
        if found.status != "True":
            return found.blocking("True")
        return found.stale_reason(generation) if found.stale(generation) else None

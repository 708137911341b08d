"""One kind's rules, as its registry strategy in the API server has them.

A Strategy is what remains of a table row once the server's version and feature gates are known.
"""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final


class UnknownServerVersionError(ValueError):
    """A Kubernetes version that is not of the form 1.36, v1.36.3 or 1.36+."""


class OnCreate(StrEnum):
    """What PrepareForCreate does with generation."""

    ONE = "one"  # set to 1, whatever was sent
    KEPT = "kept"  # nothing: stored as sent, normally absent
    NONE = "none"  # the object is never stored


class Equality(StrEnum):
    """How PrepareForUpdate compares."""

    SEMANTIC = "semantic"  # apiequality.Semantic.DeepEqual on Go types
    REFLECT = "reflect"  # reflect.DeepEqual on Go types
    UNTYPED = "untyped"  # Semantic.DeepEqual on map[string]interface{}


class SubresourceRule(StrEnum):
    """What a write to a subresource does to the generation of its object."""

    KEEP = "keep"
    EPHEMERAL_CONTAINERS = "ephemeralContainers"
    RESIZE = "resize"
    SCALE = "scale"
    EVICT = "evict"


class OnDelete(StrEnum):
    """How a DELETE sets deletionTimestamp."""

    GRACEFUL = "graceful"  # rest/delete.go:BeforeDelete: the first one counts
    FINALIZERS = "finalizers"  # store.go:markAsDeleting: counts if finalizers remain
    NEVER = "never"  # sets deletionTimestamp by itself and does not count
    NONE = "none"  # cannot be deleted


class Propagation(StrEnum):
    """DefaultGarbageCollectionPolicy of the kind."""

    BACKGROUND = "background"
    ORPHAN = "orphan"
    UNSUPPORTED = "unsupported"


@dataclass(frozen=True, slots=True)
class Strategy:
    """The rules of one kind on one server.

    compare  JSON Pointers of what counts in a main update; () when updates never count. For
             custom resources everything but `excluded` top-level fields counts.
    """

    group: str
    resource: str
    kind: str
    on_create: OnCreate
    compare: tuple[str, ...]
    equality: Equality
    subresources: dict[str, SubresourceRule] = field(hash=False)
    on_delete: OnDelete
    propagation: Propagation
    excluded: frozenset[str] = frozenset()
    source: str = ""
    note: str = ""

    @property
    def keeps_generation(self) -> bool:
        """Some write sets or moves it by itself."""
        return self.on_create is OnCreate.ONE or bool(self.compare)

    @property
    def stores_what_is_sent(self) -> bool:
        """A generation that comes with a CREATE is stored; no update ever stores one."""
        return self.on_create is OnCreate.KEPT


CUSTOM: Final = Strategy(
    "", "", "", OnCreate.ONE, ("",), Equality.UNTYPED, {}, OnDelete.FINALIZERS,
    Propagation.BACKGROUND,
    source="apiextensions-apiserver/pkg/registry/customresource/strategy.go",
)  # fmt: skip
"""Of custom resources, without what one has of its own."""
_LONGEST_MINOR: Final = 3


def parse_version(text: str) -> tuple[int, int]:
    """`1.36`, `v1.36.3`, `1.36+` → (1, 36); raises UnknownServerVersionError."""
    major, _, rest = text.strip().removeprefix("v").partition(".")
    minor = rest.partition(".")[0].partition("-")[0].rstrip("+")
    if not (major.isdecimal() and minor.isdecimal() and len(minor) <= _LONGEST_MINOR):
        raise UnknownServerVersionError(
            f"{text!r} is no Kubernetes version; write it as 1.36 or v1.36.3"
        )
    return int(major), int(minor)

"""Which suspects were created or changed shortly before a loop began.

Youth is no proof: it decides between suspects who are equal in everything else, and it is shown
with the evidence. Times are those of the API server, in seconds since the epoch; 0 is unknown.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from genguard.objects.metadata import parse_time

YOUNG_SECONDS: Final = 600.0
"""Between a change and the first sign. As long as signs may be apart and still be of one loop."""
_NO_CHANGE: Final = frozenset({"f:caBundle", "f:name", "."})
"""All that a manager owns who only renews certificates: the webhook does the same as before. The
other two are the webhook's place in its list."""


class Event(NamedTuple):
    """That a registration was "created" or "changed", and how many seconds before a loop."""

    what: str
    seconds: float


class Age(NamedTuple):
    """When a registration was created, and when what it does was last changed."""

    created: float = 0.0
    changed: float = 0.0

    def before(self, began: float) -> Event | None:
        """Return what happened last before a loop began; None if too long ago, or unknown."""
        # Creating sets both times: of two that are equal the first counts.
        known = (("created", self.created), ("changed", self.changed))
        found = [Event(what, began - at) for what, at in known if 0.0 < at <= began]
        last = min(found, key=lambda one: one.seconds, default=None)
        return last if last is not None and last.seconds <= YOUNG_SECONDS else None


UNKNOWN_AGE: Final = Age()


def age_of(document: Mapping[str, Any], part: str) -> Age:
    """Return the age of a registration; `part` is the field that says what it does.

    A new certificate in `caBundle`, a label or an annotation is no change.
    """
    metadata = document.get("metadata")
    if not isinstance(metadata, Mapping):
        return UNKNOWN_AGE
    managers = metadata.get("managedFields")
    changed = [
        _seconds(one.get("time"))
        for one in (managers if isinstance(managers, list) else ())
        if isinstance(one, Mapping) and _touches(one.get("fieldsV1"), f"f:{part}")
    ]
    return Age(_seconds(metadata.get("creationTimestamp")), max(changed, default=0.0))


def age_in_force(policy: Age, bindings: Collection[Age]) -> Age:
    """Return the age of a policy, which acts once it is bound; one more binding changes it."""
    created = max(policy.created, min(one.created for one in bindings))
    return Age(created, max(policy.changed, *(at for one in bindings for at in one)))


def rank_of(name: str, young: Sequence[str]) -> tuple[int, str]:
    """Return what to sort a name by: the young ones come first, the youngest before all."""
    return young.index(name) if name in young else len(young), name


def _touches(fields: Any, part: str) -> bool:
    """Whether a manager owns anything of a part but what is renewed."""
    owned = fields.get(part) if isinstance(fields, Mapping) else None
    return isinstance(owned, Mapping) and (not owned or any(_leaves(owned)))


def _leaves(owned: Mapping[str, Any]) -> Iterator[str]:
    """Yield the fields of a fieldsV1 that say what a registration does."""
    for key, inner in owned.items():
        if isinstance(inner, Mapping) and inner:
            yield from _leaves(inner)
        elif key not in _NO_CHANGE:
            yield key


def _seconds(text: Any) -> float:
    found = parse_time(text) if isinstance(text, str) else None
    return 0.0 if found is None else found.timestamp()

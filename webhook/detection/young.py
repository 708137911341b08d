"""Which suspects were created or changed shortly before a loop began.

Youth is no proof: it decides between suspects who are equal in everything else, and it is shown
with the evidence. Times are those of the API server, in seconds since the epoch; 0 is unknown.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final, NamedTuple

from webhook.objects.instant import parse_time

YOUNG_SECONDS: Final = 600.0
"""Between a change and the first sign. As long as signs may be apart and still be of one loop."""
_NO_CHANGE: Final = frozenset({"f:caBundle", "f:name", "."})
"""All that a manager owns who only renews certificates: the webhook does the same as before. The
other two are the webhook's place in its list."""


class Age(NamedTuple):
    """When a registration was created, and when what it does was last changed."""

    created: float = 0.0
    changed: float = 0.0

    def before(self, began: float) -> tuple[str, float] | None:
        """Return what happened last before a loop began, and how many seconds before.

        None where that is too long ago, or unknown.
        """
        known = [("changed", self.changed), ("created", self.created)]
        found = [(began - at, what) for what, at in known if 0.0 < at <= began]
        if not found:
            return None
        # Creating sets both times; then it was created, and not changed.
        seconds, what = min(found, key=lambda one: (one[0], one[1] == "changed"))
        return (what, seconds) if seconds <= YOUNG_SECONDS else None


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

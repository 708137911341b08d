"""Evidence for and against each of several webhooks that may have changed a write.

A write that came through unchanged speaks for every webhook that was called for it: most for writes
of the same place in the API, less for other writes of the same sort (of status, or not), since a
webhook with an old type knows but some kinds. A finding in which a webhook stands alone speaks
against it everywhere.

Registrations that were created or changed shortly before a loop began are young. Youth is no proof:
it decides between suspects who are equal in everything else, and it is shown with the evidence.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from genguard.objects.metadata import parse_time

MOST_PLACES: Final = 2_000
_FEW: Final = 2
_TIMES: Final = 3


class ResourceKind(NamedTuple):
    """A resource and subresource, for which webhooks are called alike."""

    group: str
    resource: str
    subresource: str

    @property
    def is_status(self) -> bool:
        """Return whether it is the status."""
        return self.subresource == "status"


class BlameScore(NamedTuple):
    """How little speaks against a webhook; the lowest score is the most suspicious one."""

    unproved: bool
    unharmed_here: int
    unharmed_elsewhere: int
    doubtful: int
    alone_in: int

    def stands_out_from(self, other: "BlameScore") -> bool:
        """Whether the difference is more than chance would make."""
        if self.unproved != other.unproved:
            return not self.unproved
        if self.unharmed_here != other.unharmed_here:
            return other.unharmed_here >= _TIMES * self.unharmed_here + _FEW
        if self.unharmed_elsewhere != other.unharmed_elsewhere:
            return other.unharmed_elsewhere >= _TIMES * self.unharmed_elsewhere + _FEW
        return self.doubtful == other.doubtful and self.alone_in < other.alone_in


class Shared(NamedTuple):
    """What the findings of one kind have in common: who stood alone, and how often each stood."""

    alone: Collection[str]
    support: Mapping[str, int]


NOTHING_SHARED: Final = Shared((), Counter())


def share(candidates: Collection[Collection[str]]) -> Shared:
    """Return what the candidates of all findings of one detector have in common."""
    alone = {name for names in candidates if len(names) == 1 for name in names}
    return Shared(alone, Counter(name for names in candidates for name in {*names}))


YOUNG_SECONDS: Final = 600.0
"""Between a change and the first sign. As long as signs may be apart and still be of one loop."""
_NO_CHANGE: Final = frozenset({"f:caBundle", "f:name", "."})
"""All that a manager owns who only renews certificates: the webhook does the same as before. The
other two are the webhook's place in its list."""


class Age(NamedTuple):
    """When a registration was created, and when what it does was last changed."""

    created: float = 0.0
    changed: float = 0.0

    def before(self, began: float) -> tuple[float, str] | None:
        """Return how many seconds before a loop it was last "created" or "changed".

        None where that was too long ago, or is not known.
        """
        # Creating sets both times: of two that are equal the first counts.
        known = {self.changed: "changed", self.created: "created"}
        found = [(began - at, what) for at, what in known.items() if 0.0 < at <= began]
        last = min(found, default=None)
        return last if last is not None and last[0] <= YOUNG_SECONDS else None


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

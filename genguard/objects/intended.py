"""What a requester asked of status, as far as it is to be put back: the fields the user named."""

import re
from typing import Any, Final, NamedTuple

import msgspec

from genguard.objects.fields import ABSENT, Path, get
from genguard.objects.observed import Observed, could_be_read, read_observed

OWN: Final = "status.observedGeneration"
CONDITIONS: Final = "status.conditions[*].observedGeneration"
_FIELD: Final = re.compile(r"status(\.[A-Za-z][A-Za-z0-9_-]*)+")
_LARGEST_OBSERVED: Final = 32 * 1024
"""Bytes in memory, some 200 conditions: where there are more, none is put back."""
_LONGEST_VALUE: Final = 4_096
"""Bytes of one value: intents are remembered, and nobody may fill the memory with them."""


class NotRestorableError(ValueError):
    """A field name that `--restore` cannot take; the message says why."""


class Intended(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The values that one write asked for; `fields` hold raw JSON by path."""

    observed: Observed
    fields: tuple[tuple[Path, bytes], ...] = ()

    @property
    def size(self) -> int:
        """About how many bytes of memory it takes."""
        return self.observed.size + sum([100 + len(value) for _, value in self.fields])


class Restored(NamedTuple):
    """Which fields are put back."""

    own: bool = True
    conditions: bool = True
    paths: tuple[Path, ...] = ()

    def read(self, status: msgspec.Raw | None) -> Intended | None:
        """What a status asks for; None where it is no status. Raises msgspec.MsgspecError."""
        observed = read_observed(status)
        if observed is None:
            return None
        kept = self._of(observed)
        if not self.paths or status is None:
            return Intended(kept)
        document = {"status": msgspec.json.decode(status)}
        found = [(path, get(document, *map(str, path))) for path in self.paths]
        fields = [(path, msgspec.json.encode(value)) for path, value in found if not cleared(value)]
        return Intended(kept, tuple(field for field in fields if len(field[1]) <= _LONGEST_VALUE))

    def hold(self, sent: Intended) -> Intended:
        """Return what `read` could have found in what another one says that a write asked for."""
        own, conditions = could_be_read(sent.observed)
        kept = self._of(
            Observed(
                sent.observed.own if own else None, sent.observed.conditions if conditions else ()
            )
        )
        given = dict(sent.fields)
        fields = [(path, given[path]) for path in self.paths if _is_value(given.get(path, b""))]
        return Intended(kept, tuple(fields))

    def _of(self, observed: Observed) -> Observed:
        are_kept = self.conditions and observed.size <= _LARGEST_OBSERVED
        return Observed(observed.own if self.own else None, observed.conditions if are_kept else ())


def _is_value(raw: bytes) -> bool:
    """Whether it is JSON as `read` keeps it."""
    try:
        return len(raw) <= _LONGEST_VALUE and not cleared(msgspec.json.decode(raw))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return False


EVERY_OBSERVED_GENERATION: Final = Restored()


def cleared(value: Any) -> bool:
    """Absent, null, or the zero of its type."""
    return value is ABSENT or value is None or (value is not False and not value)


def parse_restored(text: str) -> Restored:
    """`status.observedGeneration,status.phase` → Restored; raises NotRestorableError."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        # A list put back whole would have its items examined again in round 1.
        is_field = _FIELD.fullmatch(name) and name != "status.conditions"
        if name not in (OWN, CONDITIONS) and not is_field:
            raise NotRestorableError(
                f"--restore {name!r}: name fields of status, such as status.phase; of lists only "
                f"{CONDITIONS} can be put back"
            )
    paths = tuple(tuple(name.split(".")) for name in names if name not in (OWN, CONDITIONS))
    return Restored(OWN in names, CONDITIONS in names, paths)

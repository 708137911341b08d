"""Which values of objects may be kept and shown, and as which text.

Always shown are numbers, booleans, times, empty values, and the words of conditions: a status
(True, False, Unknown), a type, and a reason that reads like words (`MinimumReplicasAvailable`). Any
other value may be somebody's secret: without --show-values only that it differs is known. Of a
Secret nothing is shown, whatever the flags say.

A digest says whether two values are equal, and nothing else about the values.
"""

import re
import zlib
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, final

import msgspec

from genguard.objects.fields import Path

if TYPE_CHECKING:

    @final
    class Digest:
        """Equal for equal values. mypy refuses to compare it with a value of an object.

        Without that, a detector that waits for `change.after == 0` would never find anything.
        """

        def __add__(self, other: "Digest") -> "Digest":
            """Return the digest of both parts of an object; their order does not matter."""

    def as_digest(number: int) -> Digest:
        """Return a number that is made of digests as a digest."""

    def digest_of(raw: bytes | msgspec.Raw) -> Digest:
        """Return the digest of raw bytes, 32 bits."""
else:
    Digest = int  # as it is encoded, and remembered with each leaf
    as_digest = int
    digest_of = zlib.crc32


NO_DIGEST: Final = as_digest(0)
"""Of nothing at all."""


LONGEST_SHOWN: Final = 256
"""Characters of a value as JSON. A longer one is not shown: a part would look like the whole."""
_LARGEST: Final = 10**40
_LONGEST_TIME: Final = 40
SECRETS: Final = ("", "secrets")
_WORDS: Final = frozenset({"status", "reason", "type"})
_ITEM: Final = 3
"""The last parts of the path of a field of a condition: conditions, the item, the field."""
_TIME: Final = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?(Z|[+-][0-9]{2}:[0-9]{2})"
)
_TRUTHS: Final = frozenset({"True", "False", "Unknown"})
_REASON: Final = re.compile(r"[A-Z][A-Za-z]{0,63}")
"""Letters alone: what is made at random, as a token, nearly always has a digit."""
_TYPE: Final = re.compile(r"([a-z0-9]([a-z0-9.-]{0,100}[a-z0-9])?/)?[A-Z][A-Za-z0-9]{0,63}")
_encode: Final = msgspec.json.Encoder().encode


class Shows(Enum):
    """Which values are shown."""

    NOTHING = "nothing"
    PLAIN = "numbers, booleans, times and words of conditions"
    ALL = "all values, where they are not too long"


def shows_of(group: str, resource: str, most: Shows) -> Shows:
    """Return what may be shown of objects of a resource, where `most` may be of others."""
    return Shows.NOTHING if (group, resource) == SECRETS else most


def word_at(path: Path) -> str:
    """Return which word of a condition is at a path: "status", "reason" or "type"; else ""."""
    is_of_condition = len(path) >= _ITEM and path[-_ITEM] == "conditions"
    return str(path[-1]) if is_of_condition and path[-1] in _WORDS else ""


def shown(value: Any, word: str, shows: Shows) -> str | None:
    """Return a value as JSON; None where it must not be shown, or is absent.

    `word`: see word_at.
    """
    if value is None or shows is Shows.NOTHING:
        return None
    if type(value) is str:
        if not value:
            return '""'
        if shows is Shows.ALL:
            text = _encode(value).decode() if len(value) <= LONGEST_SHOWN else ""
            return text if 0 < len(text) <= LONGEST_SHOWN else None
        return f'"{value}"' if (word and _is_word(value, word)) or _is_time(value) else None
    if type(value) is int:
        return str(value) if -_LARGEST < value < _LARGEST else None
    # What is too deep is one value.
    return None if value and type(value) in {dict, list} else _encode(value).decode()


def _is_time(value: str) -> bool:
    # Most values are none: a look at one character saves the rest.
    return value[4:5] == "-" and len(value) <= _LONGEST_TIME and bool(_TIME.fullmatch(value))


def _is_word(value: str, field: str) -> bool:
    """Whether a field of a condition has a value that stands for one of few."""
    if field == "status":
        return value in _TRUTHS
    if field == "reason":
        # Made of words: at most half of its letters are capitals.
        return bool(_REASON.fullmatch(value)) and 2 * sum(map(str.isupper, value)) <= len(value)
    return is_condition_type(value)


def is_condition_type(text: str) -> bool:
    """Whether a text reads like the type of a condition: `Ready`, `example.com/Healthy`."""
    return _TYPE.fullmatch(text) is not None

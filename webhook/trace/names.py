"""Names of configurations that sort where they must: the order of names is the order of calls.

The API server calls mutating webhooks in the byte order of their configurations' names (apiserver
pkg/admission/configuration/mutating_webhook_manager.go), and a name is a DNS-1123 subdomain of at
most 253 characters (apimachinery pkg/util/validation/validation.go:IsDNS1123Subdomain), whose
labels may be of any length. "-" sorts before every other character that a name can hold.
"""

import re
from collections.abc import Iterator
from typing import Final

LONGEST: Final = 253
_ALNUM: Final = "0123456789abcdefghijklmnopqrstuvwxyz"
_LABEL: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN: Final = re.compile(rf"{_LABEL}(\.{_LABEL})*")


def is_valid(name: str) -> bool:
    """Whether the API server takes it as a configuration's name."""
    return len(name) <= LONGEST and _SUBDOMAIN.fullmatch(name) is not None


def between(after: str, before: str | None, run: str) -> str | None:
    """A name after one and before the other, the most telling there is; None: nothing sorts there.

    `after` "" is the beginning, `before` None the end. Names at the limit of length leave room
    for fewer characters, and some neighbours leave none at all.
    """
    for name in _proposals(after, before, (f"genguard-trace-{run}", run, "0")):
        if after < name and (before is None or name < before) and is_valid(name):
            return name
    return None


def _proposals(after: str, before: str | None, tails: tuple[str, ...]) -> Iterator[str]:
    """Nearest first: `after` made longer, then ever shorter beginnings of it counted up by one."""
    if after:
        yield from _longer(after, tails)
    for length in range(len(after), -1, -1):
        least = after[length] if length < len(after) else ""
        for character in _ALNUM:
            head = after[:length] + character
            if before is not None and head >= before:
                break
            if character > least:
                yield from _longer(head, tails)
                yield head


def _longer(head: str, tails: tuple[str, ...]) -> Iterator[str]:
    # The more hyphens the earlier: "a--x" comes before "a-b", should somebody be called that.
    for tail in tails:
        for hyphens in range(1, LONGEST - len(head) - len(tail) + 1):
            yield head + "-" * hyphens + tail

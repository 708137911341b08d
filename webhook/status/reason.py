"""Why an object is not ready or not settled: the field that blocks, what it has, what is wanted."""

from enum import StrEnum
from typing import Any, Final, NamedTuple

from webhook.objects.fields import ABSENT

_LONGEST_WORD: Final = 64


class Blocks(StrEnum):
    """What a reason keeps from being true."""

    BOTH = "ready and settled"
    READY = "ready"
    SETTLED = "settled"
    NOTHING = ""
    """A remark: worth knowing, and no reason to wait."""


class Reason(NamedTuple):
    """One blocking field, or one remark when nothing is `want`ed; its text is what users read."""

    path: str
    """As kubectl writes it: `status.availableReplicas`, `status.conditions[Ready]`."""
    have: Any
    """A number, boolean or short word, or ABSENT; never free text out of an object."""
    want: str = ""
    note: str = ""
    """What it means, where the numbers do not say it."""
    blocks: Blocks = Blocks.BOTH

    @property
    def against_ready(self) -> bool:
        """The object is not ready while this holds."""
        return self.blocks is Blocks.BOTH or self.blocks is Blocks.READY

    @property
    def against_settled(self) -> bool:
        """The object is not settled while this holds."""
        return self.blocks is Blocks.BOTH or self.blocks is Blocks.SETTLED

    def __str__(self) -> str:
        """`status.availableReplicas 2, want 3`; `status.loadBalancer.ingress absent, want 1`."""
        have = "absent" if self.have is ABSENT else _literal(self.have)
        text = f"{self.path} {have}"
        if self.want:
            text += f", want {self.want}"
        return f"{text}: {self.note}" if self.note else text


def remark(path: str, *, have: Any, note: str) -> Reason:
    """Something worth knowing that blocks nothing."""
    return Reason(path, have, "", note, Blocks.NOTHING)


def type_word(value: Any) -> str:
    """`a string`, `a list`: how a value of the wrong type is told without its contents."""
    return _TYPE_WORDS.get(type(value), "a value")


def short_word(value: Any) -> str:
    """A phase, a status or a condition's reason as it stands; anything longer by its type alone.

    apimachinery pkg/apis/meta/v1/types.go:Condition holds a reason to
    `[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?`; whatever is no such word may be contents.
    """
    if isinstance(value, str):
        if len(value) <= _LONGEST_WORD and value.isascii() and value.isidentifier():
            return value
        return "a text" if value else "empty"
    return type_word(value)


_TYPE_WORDS: Final = {
    type(ABSENT): "absent",
    type(None): "null",
    bool: "a boolean",
    int: "a number",
    float: "a number with a fraction",
    str: "a string",
    list: "a list",
    dict: "an object",
}


def _literal(value: Any) -> str:
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else str(value)

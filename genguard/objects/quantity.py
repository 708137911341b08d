"""Quantities compared by value, as apimachinery's semantic equality does.

Source: apimachinery pkg/api/resource/quantity.go (ParseQuantity, Cmp) and suffix.go.
"""

import re
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, Context, Decimal
from typing import Final

_SHAPE: Final = re.compile(
    r"([+-]?(?:\d+\.?\d*|\.\d+))(?:([eE][+-]?\d{1,4})|([a-zA-Z]{0,2}))",
    re.ASCII,  # other digits are none to Go, and some to Decimal
)
_EXACT: Final = Context(prec=MAX_PREC, Emax=MAX_EMAX, Emin=MIN_EMIN)  # the default has 28 digits
_SUFFIXES: Final = {
    "": Decimal(1),
    **{
        suffix: Decimal(10) ** power
        for suffix, power in {
            "n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18,
        }.items()
    },
    **{
        suffix: Decimal(1024) ** power
        for power, suffix in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), start=1)
    },
}  # fmt: skip


def parse_quantity(text: str) -> Decimal | None:
    """`1Gi` → 1073741824, `100m` → 0.1; None when the text is no quantity."""
    match = _SHAPE.fullmatch(text.strip())
    if match is None:
        return None
    number, exponent, suffix = match.groups()
    if exponent:
        return Decimal(number + exponent)
    scale = _SUFFIXES.get(suffix)
    return None if scale is None else _EXACT.multiply(Decimal(number), scale)


_NANO: Final = -9
_GRAMMAR: Final = re.compile(r"[+-]?([0-9]*\.?[0-9]*)(?:[eE]([+-]?[0-9]{1,99})|([a-zA-Z]{0,2}))")


def is_quantity(text: str) -> bool:
    """Whether ParseQuantity takes the text, which it does for more than has a value here.

    A number without a digit, as in `+`, `.` or `k`, is 0 there, but its scale must be one that
    fits an int64.
    """
    match = _GRAMMAR.fullmatch(text)
    if match is None or not text:
        return False
    number, exponent, suffix = match.groups()
    written = number.strip(".") != ""
    if exponent is None:
        return suffix in _SUFFIXES and (written or suffix not in ("Pi", "Ei"))
    power = int(exponent)
    stored = (power + 2**31) % 2**32 - 2**31  # as an int32
    return -(2**63) <= power < 2**63 and (written or stored >= _NANO)


def same_quantity(a: object, b: object) -> bool:
    """Equal by value; a number counts as its text; what does not parse is equal only to itself."""
    if type(a) is type(b) and a == b:
        return True
    left, right = _parse(a), _parse(b)
    return left is not None and right is not None and left == right


def _parse(value: object) -> Decimal | None:
    if isinstance(value, str):
        return parse_quantity(value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return parse_quantity(str(value))
    return None

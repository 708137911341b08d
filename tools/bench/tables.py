"""Tables in Markdown that read well as text, too."""

from collections.abc import Sequence
from typing import Final

NOT_MEASURED: Final = "-"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A name and numbers in each row."""
    widths = [max(len(row[at]) for row in (head, *rows)) for at in range(len(head))]
    rule = [":" + "-" * (widths[0] - 1), *("-" * (width - 1) + ":" for width in widths[1:])]
    return "\n".join(_line(row, widths) for row in (head, rule, *rows))


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    name, *numbers = zip(row, widths, strict=True)
    cells = (name[0].ljust(name[1]), *(text.rjust(width) for text, width in numbers))
    return f"| {' | '.join(cells)} |"


def fixed(value: float | None, digits: int) -> str:
    """A number with so many digits after the point."""
    return NOT_MEASURED if value is None else f"{value:,.{digits}f}"

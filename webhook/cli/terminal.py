"""Tables on a terminal: columns, colours, and one drawn over the one before."""

import shutil
import sys
from collections.abc import Sequence
from typing import Final

import click

from webhook.status.drawing import Row, Tone

_STYLES: Final[dict[Tone, dict[str, object]]] = {
    Tone.PLAIN: {},
    Tone.FAINT: {"dim": True},
    Tone.GOOD: {"fg": "green"},
    Tone.MILD: {"fg": "yellow"},
    Tone.BAD: {"fg": "red", "bold": True},
}
_GAP: Final = 2


def lines(rows: Sequence[Row], width: int | None = None) -> list[str]:
    """A line a row, in colours; none longer than the width."""
    columns = max(len(row) for row in rows)
    full = [row for row in rows if len(row) == columns]
    widths = [max(len(row[index].text) for row in full) for index in range(columns - 1)]
    return [_line(row, widths, width) for row in rows]


def is_terminal() -> bool:
    """Whether somebody looks at standard output."""
    return sys.stdout.isatty()


class Screen:
    """What was drawn last, to be drawn over."""

    def __init__(self) -> None:
        self._height = 0

    def draw(self, rows: Sequence[Row]) -> None:
        """Replace it; as much as the terminal has room for."""
        size = shutil.get_terminal_size()
        drawn = lines(rows, size.columns)
        room = max(size.lines - 2, 1)
        if len(drawn) > room:
            drawn = [*drawn[:room], f"... and {len(drawn) - room} more lines"]
        up = f"\x1b[{self._height}A" if self._height else ""
        self._height = len(drawn)
        click.echo(f"{up}\r\x1b[J" + "\n".join(drawn))


def _line(row: Row, widths: Sequence[int], width: int | None) -> str:
    text, room = "", width if width is not None else sys.maxsize
    for index, cell in enumerate(row):
        shown = cell.text[:room]
        room -= len(shown)
        padding = 0 if index == len(row) - 1 else widths[index] - len(cell.text) + _GAP
        gap = (" " * padding)[:room]
        room -= len(gap)
        text += click.style(shown, **_STYLES[cell.tone]) + gap  # type: ignore[arg-type]
    return text

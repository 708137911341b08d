"""Prints for people: tables in columns and colours, messages and questions."""

import os
import shutil
import sys
from collections.abc import Callable, Sequence
from typing import Any, Final

import click

from genguard.objects.shown import printable
from genguard.status.drawing import Row, Tone

_STYLES: Final[dict[Tone, dict[str, Any]]] = {
    Tone.PLAIN: {},
    Tone.FAINT: {"dim": True},
    Tone.GOOD: {"fg": "green"},
    Tone.MILD: {"fg": "yellow"},
    Tone.BAD: {"fg": "red", "bold": True},
}

_GAP: Final = "  "
Tell = Callable[[str], None]
"""Is given the messages of a verb, line by line."""


def lines(rows: Sequence[Row]) -> list[str]:
    """Format rows as lines with columns and colours; click.echo removes colours for a pipe."""
    columns = max(len(row) for row in rows)
    full = [row for row in rows if len(row) == columns]
    widths = [max(len(row[index].text) for row in full) for index in range(columns - 1)]
    return [_line(row, widths) for row in rows]


def is_terminal() -> bool:
    """Whether standard output is a terminal whose cursor can be moved."""
    return sys.stdout is not None and sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


def width() -> int:
    """Columns of the terminal; 80 where there is none."""
    return shutil.get_terminal_size().columns


def heading(text: str) -> str:
    """Format a heading."""
    return _styled(text, bold=True)


class Screen:
    """Draws tables on a terminal, each over the last one."""

    def __init__(self, echo: Callable[[str], object] = click.echo) -> None:
        self._echo: Final = echo
        self._height = 0

    def draw(self, rows: Sequence[Row]) -> None:
        """Draw rows over the last ones, as many as the terminal has room for."""
        size = shutil.get_terminal_size()
        drawn: list[str] = []
        height, left_out = 0, 0
        for line in lines(rows):
            # As the terminal wraps it.
            needed = max(-(-len(click.unstyle(line)) // size.columns), 1)
            if left_out or height + needed > size.lines - 2:
                left_out += 1
            else:
                height += needed
                drawn.append(line)
        if left_out:
            drawn.append(f"... and {left_out} more lines")
        up = f"\x1b[{self._height}A" if self._height else ""
        self._height = height + bool(left_out)
        self._echo(f"{up}\r\x1b[J" + "\n".join(drawn))


def _line(row: Row, widths: Sequence[int]) -> str:
    *cells, last = row
    padded = [
        _styled(cell.text, **_STYLES[cell.tone]) + " " * (width - len(cell.text)) + _GAP
        for cell, width in zip(cells, widths, strict=False)  # a remark has fewer
    ]
    return "".join(padded) + _styled(last.text, **_STYLES[last.tone])


def _styled(text: str, **style: Any) -> str:
    """In colour, unless NO_COLOR is set to anything (no-color.org)."""
    return text if os.environ.get("NO_COLOR") else click.style(text, **style)


def is_answered() -> bool:
    """Whether somebody can answer a question: standard input is a terminal."""
    return sys.stdin is not None and sys.stdin.isatty()


def ask(question: str) -> None:
    """Go on only when the user agrees."""
    if not is_answered():
        raise click.ClickException("nobody to ask: give --yes")
    click.confirm(question, abort=True, err=True)


def tell(text: str) -> None:
    """Print a line on standard error; what moves a terminal's cursor is escaped."""
    click.echo(printable(text), err=True)

"""Prints for people: tables in columns and colours, messages and questions."""

import os
import re
import shutil
import sys
import textwrap
from collections.abc import Callable, Sequence
from typing import Any, Final

import click

from genguard.objects.shown import printable
from genguard.status.drawing import Cell, Row, Tone

_STYLES: Final[dict[Tone, dict[str, Any]]] = {
    Tone.PLAIN: {},
    Tone.FAINT: {"dim": True},
    Tone.GOOD: {"fg": "green"},
    Tone.MILD: {"fg": "yellow"},
    Tone.BAD: {"fg": "red", "bold": True},
}

_GAP: Final = "  "
_ACCOUNT: Final = re.compile(r"system:serviceaccount:(?:kube-system:)?")
"""What the names of service accounts have in common."""
_COMMAND: Final = re.compile(r"genguard explain finding/\S+")
"""Is copied as a whole: no line ends in it."""
_STAYS: Final = "\N{NO-BREAK SPACE}"
_LEAST: Final = 30
"""Columns in which text is still read with ease; a cell that has fewer goes beneath its row."""
_INDENT: Final = 4
Tell = Callable[[str], None]
"""Is given the messages of a verb, line by line."""


def lines(rows: Sequence[Row], *, headless: bool = False) -> list[str]:
    """Format rows as lines with columns and colours; click.echo removes colours for a pipe.

    On a terminal service accounts have short names, and the last cell of a row wraps. Elsewhere
    a row is one line with the whole text.

    headless  the first row takes part in the widths alone
    """
    room = _room()
    rows = rows if room is None else [tuple(map(_shortened, row)) for row in rows]
    widths = _widths(rows)
    return [line for row in rows[headless:] for line in _wrapped(row, widths, room)]


def fits(rows: Sequence[Row]) -> bool:
    """Whether the terminal has room for all columns, the last one wrapped if need be."""
    room = _room()
    if room is None:
        return True
    widths = _widths([tuple(map(_shortened, row)) for row in rows])
    return sum(width + len(_GAP) for width in widths) + _LEAST <= room


def _room() -> int | None:
    """Columns of the terminal; None where the output is no terminal."""
    return width() if is_terminal() else None


def _shortened(cell: Cell) -> Cell:
    return cell._replace(text=_ACCOUNT.sub("", cell.text))


def _widths(rows: Sequence[Row]) -> list[int]:
    columns = max(len(row) for row in rows)
    full = [row for row in rows if len(row) == columns]
    return [max(len(row[index].text) for row in full) for index in range(columns - 1)]


def _wrapped(row: Row, widths: Sequence[int], room: int | None) -> list[str]:
    """Return the lines of a row: the last cell goes on in its column, or else beneath the row."""
    whole = _line(row, widths)
    *cells, last = row
    if room is None or len(click.unstyle(whole)) <= room or not last.text:
        return [whole]
    before = [width + len(_GAP) for _, width in zip(cells, widths, strict=False)]
    # A remark has a column of its own, and goes on a little to the right.
    at = sum(before) + (0 if len(row) > len(widths) else _INDENT)
    if cells and room - at < _LEAST:
        at = _INDENT
        begun, texts = _line(tuple(cells), widths), _texts(last.text, room - at)
    else:
        first, *rest = _texts(last.text, room - sum(before))
        begun, texts = _line((*cells, last._replace(text=first)), widths), []
        if rest:
            texts = _texts(" ".join(rest), room - at)
    return [begun, *(" " * at + _styled(text, **_STYLES[last.tone]) for text in texts)]


def _texts(text: str, room: int) -> list[str]:
    kept = _COMMAND.sub(lambda found: found[0].replace(" ", _STAYS), text)
    lines_of_it = textwrap.wrap(
        kept, max(room, _LEAST), break_long_words=False, break_on_hyphens=False
    )
    return [one.replace(_STAYS, " ") for one in lines_of_it]


def wrapped(lead: str, text: str, columns: int) -> str:
    """Wrap text behind a lead, which may have colours, with a margin as wide as the lead."""
    plain = click.unstyle(lead)
    filled = textwrap.fill(
        text,
        width=columns,
        initial_indent=plain,
        subsequent_indent=" " * len(plain),
        break_long_words=False,
        break_on_hyphens=False,
    )
    return lead + filled.removeprefix(plain)


def with_margin(lead: str, text: str) -> str:
    """Wrap text behind a lead on a terminal; elsewhere it is one line."""
    room = _room()
    return f"{lead}{text}" if room is None or not text else wrapped(lead, text, room)


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
        raise click.ClickException("standard input is no terminal, so nobody is asked: give --yes")
    click.confirm(question, abort=True, err=True)


def tell(text: str) -> None:
    """Print a line on standard error; what moves a terminal's cursor is escaped."""
    click.echo(printable(text), err=True)

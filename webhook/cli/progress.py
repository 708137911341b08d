"""How much of the files is read, on a terminal, and only where it takes long enough to wonder."""

import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import click

from webhook.objects.lines import Line

Position = Callable[[], int]
WORTH_SHOWING: Final = 20_000_000
"""Bytes: about half a second."""
_LINES: Final = 500
_CLEAR: Final = "\r\x1b[K"


class Progress:
    """A bar of bytes over all files; entered, it is drawn on standard error while they are read."""

    def __init__(self, files: Iterable[str]) -> None:
        self._total: Final = sum(Path(name).stat().st_size for name in files if _is_file(name))
        self.shown: Final = self._total >= WORTH_SHOWING and _is_terminal()
        self._bar: Final = click.progressbar(
            length=max(self._total, 1), label="read", file=sys.stderr, hidden=not self.shown
        )

    def __enter__(self) -> Self:
        self._bar.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bar.__exit__(kind, error, trace)

    def lines(self, stream: Iterable[Line], position: Position) -> Iterable[Line]:
        """The lines of a stream; `position` tells how far its file is read."""
        return self._counted(stream, position) if self.shown else stream

    def clear(self) -> None:
        """Make room for a line of output."""
        if self.shown and sys.stdout.isatty():
            sys.stderr.write(_CLEAR)
            sys.stderr.flush()

    def _counted(self, stream: Iterable[Line], position: Position) -> Iterator[Line]:
        behind = 0
        for number, line in enumerate(stream, start=1):
            yield line
            if number % _LINES == 0:
                now = position()
                self._bar.update(now - behind)
                behind = now
        self._bar.update(position() - behind)


def _is_file(name: str) -> bool:
    return name != "-" and Path(name).is_file()


def _is_terminal() -> bool:
    return sys.stderr.isatty()

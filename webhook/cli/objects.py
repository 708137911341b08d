"""The objects of files that are named on the command line; what cannot be read is told."""

import sys
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, BinaryIO, Final

import click

from webhook.objects.documents import Unreadable, read_documents
from webhook.objects.lines import LONGEST_LINE, bounded
from webhook.objects.shown import printable

MAX_LINE: Final = click.option(
    "--max-line",
    metavar="MIB",
    type=click.IntRange(1),
    default=LONGEST_LINE,
    show_default=True,
    help="Leave out lines of a file that are longer, and report them.",
)


def advice(found: Unreadable) -> str:
    """What to do about a document that cannot be read."""
    return "raise --max-line to read it" if found.is_too_long else "mend it and try again"


class FileObjects:
    """Read while they are iterated; `unread` counts what was told on standard error."""

    def __init__(self, names: Iterable[str], max_line: int) -> None:
        """`max_line`: how many MiB a line may have."""
        self._names: Final = names
        self._max_line: Final = max_line
        self.unread = 0

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for name in self._names:
            where = "standard input" if name == "-" else name
            try:
                with open_named(name) as stream:
                    for found in read_documents(bounded(stream, self._max_line)):
                        if isinstance(found, Unreadable):
                            self._tell(f"{where}: {found} was left out; {advice(found)}")
                        else:
                            yield found.value
            except OSError as error:
                self._tell(f"{where}: {error.strerror}")

    def _tell(self, text: str) -> None:
        self.unread += 1
        click.echo(printable(text), err=True)


def open_named(name: str) -> AbstractContextManager[BinaryIO]:
    """A file, or standard input for `-`."""
    return nullcontext(sys.stdin.buffer) if name == "-" else Path(name).open("rb")

"""Reads the objects of files that are named on the command line."""

import errno
import gzip
import io
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any, BinaryIO, Final, cast

import click

from webhook.objects.documents import Unreadable, read_documents
from webhook.objects.lines import bounded
from webhook.objects.shown import printable

Position = Callable[[], int]
_GZIP_MAGIC: Final = b"\x1f\x8b"


def advice(found: Unreadable) -> str:
    """What the user can do about a document that cannot be read."""
    return "raise --max-line to read it" if found.is_too_long else "mend it and try again"


class FileObjects:
    """Reads objects while it is iterated; `unread` counts those reported on standard error."""

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
    """Open a file, or standard input for `-`. Raises OSError."""
    return nullcontext(_standard_input()) if name == "-" else Path(name).open("rb")


def _standard_input() -> BinaryIO:
    if sys.stdin is None:  # whoever started this process has closed it
        raise OSError(errno.EBADF, os.strerror(errno.EBADF), "standard input")
    return sys.stdin.buffer


@contextmanager
def open_unpacked(name: str) -> Iterator[tuple[BinaryIO, Position]]:
    """Open a file, plain or gzip; gives its lines, and a function: how many bytes are read."""
    raw = _standard_input() if name == "-" else Path(name).open("rb")  # noqa: SIM115
    with io.BufferedReader(cast("io.RawIOBase", raw)) as stream:
        if stream.peek(2)[:2] == _GZIP_MAGIC:
            with gzip.open(stream) as plain:  # closes itself alone
                yield cast("BinaryIO", plain), stream.tell
        else:
            yield cast("BinaryIO", stream), stream.tell

"""The objects of files that are named on the command line; what cannot be read is told."""

import sys
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, BinaryIO, Final

import click

from webhook.objects.documents import Unreadable, read_documents
from webhook.objects.shown import printable


class FileObjects:
    """Read while they are iterated; `unread` counts what was told on standard error."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names: Final = names
        self.unread = 0

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for name in self._names:
            where = "standard input" if name == "-" else name
            try:
                with _open(name) as lines:
                    for found in read_documents(lines):
                        if isinstance(found, Unreadable):
                            self._tell(f"{where}: {found} was left out; mend it and try again")
                        else:
                            yield found.value
            except OSError as error:
                self._tell(f"{where}: {error.strerror}")

    def _tell(self, text: str) -> None:
        self.unread += 1
        click.echo(printable(text), err=True)


def _open(name: str) -> AbstractContextManager[BinaryIO]:
    return nullcontext(sys.stdin.buffer) if name == "-" else Path(name).open("rb")

"""Reads what a command line names: objects in files and folders, and events of audit logs."""

import errno
import gzip
import heapq
import io
import os
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, BinaryIO, Final, cast

import click
import msgspec

from genguard.audit.event import (
    UNFINISHED,
    Event,
    audit_kind,
    is_unfinished,
    read_event,
    see_events,
    why_unreadable,
)
from genguard.formats.documents import (
    LONGEST_LINE,
    Line,
    LongLine,
    Unreadable,
    bounded,
    read_documents,
)
from genguard.generation.table import DEFAULT_SERVER_VERSION
from genguard.objects.shown import printable
from webhook.cli.options import F, together
from webhook.cli.output import tell
from webhook.server.flags import FILE

_REPAIR: Final = "correct it and try again"
_GZIP_MAGIC: Final = b"\x1f\x8b"
MANIFESTS: Final = (".json", ".yaml", ".yml")
"""The files of a folder that kubectl reads."""
Opened = Callable[[str], AbstractContextManager[BinaryIO]]
LOGS: Final = (".log", ".json", ".jsonl", ".ndjson", ".gz")
MAX_LINE: Final = click.option(
    "--max-line", metavar="MIB", type=click.IntRange(1), default=LONGEST_LINE, show_default=True
)


class FileObjects:
    """Reads objects while it is iterated; `unread` counts those reported on standard error."""

    def __init__(self, names: Sequence[str], max_line: int, *, recursive: bool = False) -> None:
        """`max_line`: how many MiB a line may have; `recursive`: a folder with its folders."""
        self._names: Final = names
        self._max_line: Final = max_line
        self._recursive: Final = recursive
        self.unread = 0

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for given in self._names:
            try:
                yield from self._read(expand((given,), MANIFESTS, recursive=self._recursive))
            except OSError as error:
                self._tell(f"{given}: {error.strerror}")

    def _read(self, names: Iterable[str]) -> Iterator[dict[str, Any]]:
        for name in names:
            where = "standard input" if name == "-" else name
            try:
                with open_named(name) as stream:
                    for found in read_documents(bounded(stream, self._max_line)):
                        if isinstance(found, Unreadable):
                            way = "raise --max-line to read it" if found.is_too_long else _REPAIR
                            self._tell(f"{where}: {found} was left out; {way}")
                        else:
                            yield found.value
            except OSError as error:
                self._tell(f"{where}: {error.strerror}")

    def _tell(self, text: str) -> None:
        self.unread += 1
        click.echo(printable(text), err=True)


def expand(names: Iterable[str], endings: Sequence[str], *, recursive: bool) -> Iterator[str]:
    """Yield the names of files and standard input; a folder becomes its files, sorted.

    endings    which files of a folder are meant
    recursive  of the folders below it, too

    Raises OSError for a folder that cannot be read, or has no such file.
    """
    for name in names:
        if name == "-" or not Path(name).is_dir():
            yield name
            continue
        found = sorted(
            str(path)
            for path in Path(name).glob("**/*" if recursive else "*")
            if path.suffix in endings and path.is_file()
        )
        if not found:
            more = "" if recursive else ", or give -R for the folders in it"
            reason = f"no file of the folder ends in {' '.join(endings)}{more}"
            raise FileNotFoundError(errno.ENOENT, reason, name)
        yield from found


def texts_of(names: Iterable[str]) -> dict[str, str]:
    """Return the text of each file by its name, for the lines of its fields.

    Standard input cannot be read again: it has no lines.
    """
    return {
        name: Path(name).read_text("utf-8", errors="replace") if Path(name).is_file() else ""
        for name in names
    }


def open_named(name: str) -> AbstractContextManager[BinaryIO]:
    """Open a file, or standard input for `-`. Raises OSError."""
    return nullcontext(_standard_input()) if name == "-" else Path(name).open("rb")


def _standard_input() -> BinaryIO:
    if sys.stdin is None:  # whoever started this process has closed it
        raise OSError(errno.EBADF, os.strerror(errno.EBADF), "standard input")
    return sys.stdin.buffer


class UnreadFileError(click.ClickException):
    """A file, plain or gzip, that cannot be read; `reason` says why."""

    def __init__(self, name: str, error: Exception) -> None:
        self.reason: Final = getattr(error, "strerror", None) or "is no complete gzip file"
        super().__init__(f"{name}: {self.reason}")


def lines_of(name: str, max_line: int, opened: Opened = open_named) -> Iterator[Line]:
    """Yield the lines of a file, plain or gzip. Raises UnreadFileError."""
    try:
        with opened(name) as raw, io.BufferedReader(cast("io.RawIOBase", raw)) as stream:
            is_packed = stream.peek(2)[:2] == _GZIP_MAGIC
            # GzipFile leaves the stream beneath it open.
            with gzip.open(stream) if is_packed else nullcontext(stream) as plain:
                yield from bounded(cast("BinaryIO", plain), max_line)
    except (OSError, EOFError, zlib.error) as error:
        raise UnreadFileError(name, error) from error


def read_audit_logs(take: Callable[[Event], None], files: Iterable[str], max_line: int) -> int:
    """Give each event of these logs to `take`, in the order of their times.

    Each API server has a log of its own, and rotates it: the files are read side by side.

    Return how many lines and events could not be read; each is reported on standard error. Raises
    UnreadFileError.
    """
    unread = 0

    def report(where: str, trouble: str) -> None:
        nonlocal unread
        unread += 1
        tell(f"{where}: {trouble}")

    each = [_events(name, max_line, report) for name in files]
    for event in heapq.merge(*each, key=lambda event: event.time):
        try:
            take(event)
        except Exception as error:  # noqa: BLE001 - one bad event must not end the others
            report(f"an event of {event.time:.0f} s", why_unreadable(error))
    return unread


def _events(name: str, max_line: int, report: Callable[[str, str], None]) -> Iterator[Event]:
    for number, line in enumerate(lines_of(name, max_line), start=1):
        found: list[Event] = []
        for trouble in _read_line(line, found):
            report(f"{name}:{number}", trouble)
        yield from found


def _read_line(line: Line, found: list[Event]) -> Sequence[str]:
    """Add the events of one line; return what is wrong with it, or with each of them."""
    if isinstance(line, LongLine):
        return [f"{line}: raise --max-line to read it"]
    if not line or line.isspace():
        return ()
    try:
        if not (kind := audit_kind(line)):
            return ["no event of an audit log (audit.k8s.io/v1)"]
        troubles = see_events(line, kind, lambda text: found.append(read_event(text)))
        return [trouble for trouble in troubles if trouble != UNFINISHED]
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        if is_unfinished(line, error):
            return ()
        return [f"no event of an audit log that can be read: {why_unreadable(error)}"]


of_recording: Final[Callable[[F], F]] = together(
    click.option("--server-version", default=DEFAULT_SERVER_VERSION, show_default=True),
    click.option("--crds", type=FILE),
    click.option("--webhooks", type=FILE),
)
"""Adds the flags that say from which cluster a recording is."""

"""Reads what a command line names: objects in files, folders and URLs, and events of audit logs."""

import errno
import gzip
import heapq
import io
import os
import sys
import time
import urllib.request
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from http.client import HTTPException
from pathlib import Path
from typing import Any, BinaryIO, Final, cast
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit

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
from webhook.cli.options import F, with_flags
from webhook.cli.output import tell
from webhook.server.flags import FILE

_REPAIR: Final = "correct it and try again"
Position = Callable[[], int]
UNREAD_FILE: Final = (OSError, EOFError, zlib.error)
_GZIP_MAGIC: Final = b"\x1f\x8b"
MANIFESTS: Final = (".json", ".yaml", ".yml")
"""What kubectl reads of a folder."""
LOGS: Final = (".log", ".json", ".jsonl", ".ndjson", ".gz")
MAX_LINE: Final = click.option(
    "--max-line",
    metavar="MIB",
    type=click.IntRange(1),
    default=LONGEST_LINE,
    show_default=True,
    help="Leave out lines of a file that are longer, and report them.",
)
_URLS: Final = ("http://", "https://")
_MOST_URL_BYTES: Final = 64 << 20
_URL_SECONDS: Final = 30.0
_SILENT_SECONDS: Final = 10.0
_PIECE: Final = 1 << 16


class FileObjects:
    """Reads objects while it is iterated; `unread` counts those reported on standard error."""

    def __init__(self, names: Sequence[str], max_line: int, *, recursive: bool = False) -> None:
        """`max_line`: how many MiB a line may have; `recursive`: a folder with its folders."""
        self._names: Final = names
        self._max_line: Final = max_line
        self._recursive: Final = recursive
        self.unread = 0

    @property
    def are_given(self) -> bool:
        """Whether any file is named."""
        return bool(self._names)

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
    """Yield the names of files, URLs and standard input; a folder becomes its files, sorted.

    endings    which files of a folder are meant
    recursive  of the folders below it, too

    Raises OSError for a folder that cannot be read, or has no such file.
    """
    for name in names:
        if name == "-" or name.startswith(_URLS) or not Path(name).is_dir():
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

    Standard input cannot be read again, and a URL is not asked twice: they have no lines.
    """
    return {
        name: Path(name).read_text("utf-8", errors="replace") if Path(name).is_file() else ""
        for name in names
    }


def open_named(name: str) -> AbstractContextManager[BinaryIO]:
    """Open a file, an https URL, or standard input for `-`. Raises OSError."""
    return nullcontext(_standard_input()) if name == "-" else _open(name)


def unread_file(error: Exception) -> str:
    """Say why a file that may be compressed cannot be read."""
    return getattr(error, "strerror", None) or "is no whole gzip file"


def _standard_input() -> BinaryIO:
    if sys.stdin is None:  # whoever started this process has closed it
        raise OSError(errno.EBADF, os.strerror(errno.EBADF), "standard input")
    return sys.stdin.buffer


@contextmanager
def open_unpacked(name: str) -> Iterator[tuple[BinaryIO, Position]]:
    """Open a file, plain or gzip; gives its lines, and a function: how many bytes are read."""
    raw = _standard_input() if name == "-" else _open(name)
    with io.BufferedReader(cast("io.RawIOBase", raw)) as stream:
        if stream.peek(2)[:2] == _GZIP_MAGIC:
            with gzip.open(stream) as plain:  # closes itself alone
                yield cast("BinaryIO", plain), stream.tell
        else:
            yield cast("BinaryIO", stream), stream.tell


def _open(name: str) -> BinaryIO:
    return _fetch(name) if name.startswith(_URLS) else Path(name).open("rb")


class _HttpsOnly(urllib.request.HTTPRedirectHandler):
    """Follows no redirect to a URL that anybody on the way could answer."""

    def redirect_request(self, *given: Any) -> urllib.request.Request | None:
        *_, url = given
        if urlsplit(url).scheme != "https":
            raise URLError("it leads to a URL without https")
        return super().redirect_request(*given)


def _fetch(url: str) -> BinaryIO:
    """Read a URL into memory, as long as it is within bounds. Raises OSError."""
    if not url.startswith("https://") or not urlsplit(url).hostname:
        raise OSError(errno.EINVAL, "give an https URL")
    end = time.monotonic() + _URL_SECONDS
    kept = io.BytesIO()
    try:
        opener = urllib.request.build_opener(_HttpsOnly())
        with opener.open(url, timeout=_SILENT_SECONDS) as answer:
            while kept.tell() <= _MOST_URL_BYTES and time.monotonic() <= end:
                if not (piece := answer.read1(_PIECE)):
                    kept.seek(0)
                    return kept
                kept.write(piece)
    except HTTPError as error:
        raise OSError(errno.EIO, f"the server answers {error.code} {error.reason}") from error
    except (OSError, HTTPException, ValueError) as error:
        reason = error.reason if isinstance(error, URLError) else error
        why = getattr(reason, "strerror", None) or f"not read: {reason or type(reason).__name__}"
        raise OSError(errno.EIO, str(why)) from error
    most = f"more than {_MOST_URL_BYTES >> 20} MiB, or more than {_URL_SECONDS:g} s"
    raise OSError(errno.EFBIG, most)


def read_audit_logs(take: Callable[[Event], None], files: Iterable[str], max_line: int) -> int:
    """Give each event of these logs to `take`, in the order of their times.

    Each API server has a log of its own, and rotates it: the files are read side by side.

    Return how many lines and events could not be read; each is reported on standard error. Raises
    click.ClickException for a file that cannot be read.
    """
    unread = 0

    def report(where: str, trouble: str) -> None:
        nonlocal unread
        unread += 1
        tell(f"{where}: {trouble}")

    each = [_events(name, max_line, report) for name in files]
    for event in heapq.merge(*each, key=lambda one: one.time):
        try:
            take(event)
        except Exception as error:  # noqa: BLE001 - one bad event must not end the others
            report(f"an event of {event.time:.0f} s", why_unreadable(error))
    return unread


def _events(name: str, max_line: int, report: Callable[[str, str], None]) -> Iterator[Event]:
    try:
        with open_unpacked(name) as (stream, _):
            for number, line in enumerate(bounded(stream, max_line), start=1):
                found, troubles = _read_line(line)
                for trouble in troubles:
                    report(f"{name}:{number}", trouble)
                yield from found
    except UNREAD_FILE as error:
        raise click.ClickException(f"{name}: {unread_file(error)}") from error


def _read_line(line: Line) -> tuple[list[Event], list[str]]:
    """Read the events of one line; return them, and what is wrong with it or with each of them."""
    found: list[Event] = []
    if isinstance(line, LongLine):
        return found, [f"{line}: raise --max-line to read it"]
    if not line or line.isspace():
        return found, []
    try:
        kind = audit_kind(line)
        if not kind:
            return found, ["no event of an audit log (audit.k8s.io/v1)"]
        troubles = see_events(line, kind, lambda text: found.append(read_event(text)))
        return found, [one for one in troubles if one != UNFINISHED]
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        if is_unfinished(line, error):
            return found, []
        return found, [f"no event of an audit log that can be read: {why_unreadable(error)}"]


_RECORDED: Final = (
    click.option(
        "--server-version",
        default=DEFAULT_SERVER_VERSION,
        show_default=True,
        help="Whose rules held when it was recorded.",
    ),
    click.option(
        "--crds",
        type=FILE,
        help="CustomResourceDefinitions of the recorded cluster, JSON or YAML.",
    ),
    click.option(
        "--webhooks",
        type=FILE,
        help="The cluster's webhook configurations and MutatingAdmissionPolicies with their "
        "bindings, JSON or YAML: findings then name the culprit.",
    ),
)


def of_recording(verb: F) -> F:
    """Add the flags to a verb."""
    return with_flags(verb, _RECORDED)

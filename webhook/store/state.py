"""Keeps findings and objects over a restart, in a SQLite file that one process uses at a time.

StatePersister loads everything before the server starts, and saves what changed every few seconds.
Changes are collected in batches on the event loop; a thread writes to the disk. A save that fails
is logged once and counted, and the next save makes up for it. SqliteFile writes all rows of a save
or none, because a process may be killed at any moment.

A damaged file is moved aside and kept, and the server starts with nothing: answers to the API
server matter more than what was known. A whole database of another program or version is not
damaged: it is neither used nor changed, and the server does not start.
"""

import asyncio
import contextlib
import os
import sqlite3
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol, Self

import msgspec

from webhook.files.private import keep_private
from webhook.store.address import BadStoreError
from webhook.tasks.supervisor import Supervisor
from webhook.tasks.threads import in_thread
from webhook.telemetry import declarations
from webhook.telemetry.logs import LOGGER
from webhook.telemetry.metrics import Metrics

Row = tuple[str, bytes]

_APPLICATION: Final = 0x67656E67
"""The application id in the file's header: "geng"."""
_FORM: Final = 1
"""The version of the rows' form; a file of another version is not read."""
_START_ANEW: Final = "move it away to start with nothing, or name another file"
_DAMAGES: Final = {
    sqlite3.SQLITE_NOTADB: "it is no database",
    sqlite3.SQLITE_CORRUPT: "it is damaged",
}
_NO_ROOM: Final = frozenset({sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR})
_REASONS: Final = {
    **_DAMAGES,
    sqlite3.SQLITE_BUSY: "another process uses it; each server needs a file of its own",
    sqlite3.SQLITE_CANTOPEN: "it cannot be opened; is its folder there, and may it be written to?",
    sqlite3.SQLITE_READONLY: "it cannot be written to",
    sqlite3.SQLITE_FULL: "the disk is full",
    sqlite3.SQLITE_IOERR: "the disk does not read or write it",
}
SAVE_SECONDS: Final = 3.0
SAVING: Final = "saving"
"""The name of the task."""
_BATCH: Final = 200
DAMAGED: Final = "saved state"
"""What the supervisor counts as left out when a damaged file was moved aside."""
_BESIDE: Final = ("", "-journal", "-wal", "-shm")
"""The files of a database. SQLite would apply an old journal to a new file of the same name."""


class DamagedStoreError(BadStoreError):
    """The file, or a row in it, cannot be read; the message says which."""


class NotSavedError(Exception):
    """The current rows are not in the file; the message says why."""


class Changes(NamedTuple):
    """What changed in one kind of rows since the last save: rows to write, names to delete."""

    rows: Iterable[Row]
    gone: Iterable[str]


class SqliteFile:
    """An open file; its calls may come from any thread, one at a time."""

    def __init__(self, path: Path) -> None:
        """Open or create the file. Raises BadStoreError; DamagedStoreError if it is damaged."""
        self._path: Final = path
        self._is_empty = False
        """Whether no table is in it yet: the first save makes it. A full disk may refuse that."""
        try:
            with contextlib.suppress(FileExistsError):
                # Findings tell about the cluster: only the owner may read them.
                os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
            self._file: Final = sqlite3.connect(
                path, timeout=0, check_same_thread=False, isolation_level=None
            )
        except (OSError, sqlite3.Error) as error:
            reason = _REASONS[sqlite3.SQLITE_CANTOPEN]
            raise BadStoreError(f"--store sqlite:{path}: {reason}") from error
        try:
            self._take()
            keep_private(path)
        except OSError as error:
            self._file.close()
            raise BadStoreError(f"--store sqlite:{path}: {error.strerror}") from error
        except BaseException:
            self._file.close()
            raise

    def load(self, kind: str) -> list[Row]:
        """Return all rows of a kind. Raises BadStoreError; DamagedStoreError if it is damaged."""
        if self._is_empty:
            return []
        try:
            found = self._file.execute("SELECT name, content FROM kept WHERE kind = ?", (kind,))
            return [(str(name), bytes(content)) for name, content in found]
        except sqlite3.Error as error:
            raise _refusal(self._path, error) from error

    def save(self, changes: Mapping[str, Changes]) -> None:
        """Write and delete rows by kind, in one transaction. Raises NotSavedError."""
        try:
            self._file.execute("BEGIN")
            if self._is_empty:
                self._make_table()
            for kind, (rows, gone) in changes.items():
                self._file.executemany(
                    "INSERT OR REPLACE INTO kept (kind, name, content) VALUES (?, ?, ?)",
                    ((kind, name, content) for name, content in rows),
                )
                self._file.executemany(
                    "DELETE FROM kept WHERE kind = ? AND name = ?", ((kind, name) for name in gone)
                )
            self._file.execute("COMMIT")
            self._is_empty = False
        except (sqlite3.Error, UnicodeEncodeError) as error:
            with contextlib.suppress(sqlite3.Error):
                self._file.execute("ROLLBACK")
            raise NotSavedError(_reason(error)) from error

    def close(self) -> None:
        """Close the file; another process may use it then."""
        self._file.close()

    def _take(self) -> None:
        """Lock the file, and check that it is genguard's and whole.

        Raises BadStoreError; DamagedStoreError if it is not whole.
        """
        try:
            self._file.execute("PRAGMA locking_mode = EXCLUSIVE")
            try:
                self._file.execute("BEGIN EXCLUSIVE")
            except sqlite3.Error as error:
                # SQLite writes the first page of an empty file here.
                if _code(error) not in _NO_ROOM or self._path.stat().st_size:
                    raise
                self._is_empty = True
                return
            application, form = self._number("application_id"), self._number("user_version")
            if application == 0 and self._number("schema_version") == 0:
                self._is_empty = True
            elif application != _APPLICATION:
                reason = f"it is no file of genguard's; {_START_ANEW}"
                raise BadStoreError(f"--store sqlite:{self._path}: {reason}")
            elif form != _FORM:
                reason = f"it was written by another version of genguard; {_START_ANEW}"
                raise BadStoreError(f"--store sqlite:{self._path}: {reason}")
            self._file.execute("COMMIT")
            (verdict,) = self._file.execute("PRAGMA quick_check(1)").fetchone()
            if verdict != "ok":
                raise sqlite3.DatabaseError(sqlite3.SQLITE_CORRUPT)
        except sqlite3.Error as error:
            raise _refusal(self._path, error) from error

    def _make_table(self) -> None:
        self._file.execute(
            "CREATE TABLE kept (kind TEXT, name TEXT, content BLOB, "
            "PRIMARY KEY (kind, name)) WITHOUT ROWID"
        )
        self._file.execute(f"PRAGMA application_id = {_APPLICATION}")
        self._file.execute(f"PRAGMA user_version = {_FORM}")

    def _number(self, pragma: str) -> int:
        (value,) = self._file.execute(f"PRAGMA {pragma}").fetchone()
        return int(value)


def _code(error: Exception) -> int:
    """Return the low byte of SQLite's code, which says what kind of error it is (rescode.html)."""
    given = error.args[0] if error.args else None
    code = given if isinstance(given, int) else getattr(error, "sqlite_errorcode", 0)
    return int(code) & 0xFF


def _reason(error: Exception) -> str:
    """Return the reason in our own words."""
    return _REASONS.get(_code(error), f"SQLite says {type(error).__name__}; {_START_ANEW}")


def _refusal(path: Path, error: Exception) -> BadStoreError:
    kind = DamagedStoreError if _code(error) in _DAMAGES else BadStoreError
    return kind(f"--store sqlite:{path}: {_reason(error)}")


def move_aside(path: Path, at: datetime) -> Path:
    """Rename a damaged file and what SQLite keeps beside it; return the new path.

    Raises BadStoreError when its folder does not allow it.
    """
    stem = f"{path.name}.damaged-{at:%Y%m%dT%H%M%SZ}"
    names = (stem, *(f"{stem}-{number}" for number in range(2, 100)))
    aside = next(one for one in map(path.with_name, names) if not one.exists())
    for end in _BESIDE:
        try:
            path.with_name(path.name + end).rename(aside.with_name(aside.name + end))
        except FileNotFoundError:
            continue
        except OSError as error:
            reason = f"it is damaged, and cannot be moved aside: {error.strerror}"
            raise BadStoreError(f"--store sqlite:{path}: {reason}") from error
    return aside


class PersistentPart(Protocol):
    """A part of the server's state, kept as rows."""

    def marks(self) -> Iterator[tuple[str, Any]]:
        """Yield the name of each row, and a value that differs once the row has changed."""

    def export(self, name: str) -> bytes | None:
        """Return the content of one row; None when it is gone by now."""

    def restore(self, rows: Iterable[Row]) -> None:
        """Load rows, at the start. Raises msgspec.MsgspecError, ValueError or RecursionError."""


class Rows(Protocol):
    """A storage of rows; see SqliteFile."""

    def load(self, kind: str) -> list[Row]:
        """Return all rows of a kind."""

    def save(self, changes: Mapping[str, Changes]) -> None:
        """Write and delete rows, all or none; raises NotSavedError."""

    def close(self) -> None:
        """Close the storage; nothing is called after this."""


class StatePersister:
    """Loads and saves parts of the state, each under its own name."""

    def __init__(self, rows: Rows, parts: Mapping[str, PersistentPart]) -> None:
        """Load every part. Raises BadStoreError, after closing `rows`.

        DamagedStoreError: some rows cannot be read; the parts may have some of the others.
        """
        self._rows: Final = rows
        self._parts: Final = parts
        self._saved: Final[dict[str, dict[str, Any]]] = {}
        self._is_failing = False
        self.failures = 0
        for kind, part in parts.items():
            try:
                found = rows.load(kind)
                part.restore(found)
            except (msgspec.MsgspecError, ValueError, RecursionError) as error:
                rows.close()
                raise DamagedStoreError(f"--store: {kind} cannot be read") from error
            except BadStoreError:
                rows.close()
                raise
            names = {name for name, _ in found}
            self._saved[kind] = {name: mark for name, mark in part.marks() if name in names}

    @classmethod
    def opened(
        cls, path: Path, parts: Mapping[str, PersistentPart], supervisor: Supervisor
    ) -> Self:
        """Load every part from a file, which is created if absent. Raises BadStoreError.

        A damaged file is moved aside: that is logged, and counted by the supervisor as DAMAGED.
        """
        with supervisor.guard(DAMAGED, DamagedStoreError):
            return cls(SqliteFile(path), parts)
        aside = move_aside(path, datetime.now(UTC))
        facts = {"file": str(path), "movedTo": str(aside)}
        LOGGER.error("a damaged file was moved aside", extra={"facts": facts})
        return cls(SqliteFile(path), parts)

    @asynccontextmanager
    async def running(self, metrics: Metrics, supervisor: Supervisor) -> AsyncIterator[None]:
        """Save every few seconds while the context is entered, and once at the end."""
        metrics.gauge(declarations.STORE_SAVE_FAILURES, lambda: float(self.failures))
        over = asyncio.Event()
        supervisor.start(SAVING, lambda: self._run(over))
        try:
            yield
        finally:
            await supervisor.end((SAVING,), ask=over.set)  # not cancelled: a thread may be writing
            with supervisor.guard("save at the end"):
                await self.save()
            await in_thread(self._rows.close)

    async def save(self) -> None:
        """Save what changed since the last save; the next one makes up for a save that failed."""
        changes, marks = dict[str, Changes](), dict[str, dict[str, Any]]()
        for kind, part in self._parts.items():
            changes[kind], marks[kind] = await self._changes(self._saved[kind], part)
        if not any(rows or gone for rows, gone in changes.values()):
            return
        try:
            await in_thread(self._rows.save, changes)
        except NotSavedError as error:
            self.failures += 1
            if not self._is_failing:
                LOGGER.warning("state not saved", extra={"facts": {"reason": str(error)}})
            self._is_failing = True
        else:
            for kind, saved in self._saved.items():
                saved.update(marks[kind])
                for name in changes[kind].gone:
                    del saved[name]
            if self._is_failing:
                LOGGER.info("state is saved again")
            self._is_failing = False

    async def _run(self, over: asyncio.Event) -> None:
        while not over.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(SAVE_SECONDS):
                    await over.wait()
                    return
            await self.save()

    async def _changes(
        self, saved: Mapping[str, Any], part: PersistentPart
    ) -> tuple[Changes, dict[str, Any]]:
        """Return what differs from what is saved, and the marks of the rows to write."""
        rows, marks, present, known = list[Row](), dict[str, Any](), set[str](), 0
        for count, (name, mark) in enumerate(part.marks(), start=1):
            present.add(name)
            is_known = name in saved
            known += is_known
            if not is_known or saved[name] != mark:
                content = part.export(name)
                if content is not None:
                    rows.append((name, content))
                    marks[name] = mark
            if count % _BATCH == 0:
                await asyncio.sleep(0)
        gone = tuple(saved.keys() - present) if known < len(saved) else ()
        return Changes(rows, gone), marks

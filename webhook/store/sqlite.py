"""Rows in a SQLite file, for one process at a time.

All rows of a save are there afterwards, or none is: a process may be killed at any moment. What is
no file of ours, or a damaged one, is neither used nor touched.
"""

import contextlib
import os
import sqlite3
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from webhook.private_file import keep_private
from webhook.store.address import BadStoreError

Row = tuple[str, bytes]

_APPLICATION: Final = 0x67656E67
"""Stands in the file's header: "geng"."""
_FORM: Final = 1
"""Of the rows; a file of another form is not read."""
_START_ANEW: Final = "move it away to start with nothing, or name another file"
_REASONS: Final = {
    sqlite3.SQLITE_BUSY: "another process uses it; each server needs a file of its own",
    sqlite3.SQLITE_NOTADB: f"it is no file of genguard's; {_START_ANEW}",
    sqlite3.SQLITE_CORRUPT: f"it is damaged; {_START_ANEW}",
    sqlite3.SQLITE_CANTOPEN: "it cannot be opened; is its folder there, and may it be written to?",
    sqlite3.SQLITE_READONLY: "it cannot be written to",
    sqlite3.SQLITE_FULL: "the disk is full",
    sqlite3.SQLITE_IOERR: "the disk does not read or write it",
}


class NotSavedError(Exception):
    """The rows of now are not in the file; the message is why."""


class Changes(NamedTuple):
    """What became of one kind of rows since the last save."""

    rows: Iterable[Row]
    gone: Iterable[str]


class SqliteFile:
    """An open file; its calls may come from any thread, one at a time."""

    def __init__(self, path: Path) -> None:
        """Open or make the file. Raises BadStoreError."""
        self._path: Final = path
        try:
            with contextlib.suppress(FileExistsError):
                # What findings say of a cluster is nobody else's business.
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
        """All rows of a kind. Raises BadStoreError."""
        try:
            found = self._file.execute("SELECT name, content FROM kept WHERE kind = ?", (kind,))
            return [(str(name), bytes(content)) for name, content in found]
        except sqlite3.Error as error:
            raise BadStoreError(f"--store sqlite:{self._path}: {_reason(error)}") from error

    def save(self, changes: Mapping[str, Changes]) -> None:
        """Put and take out rows by kind, all at once. Raises NotSavedError."""
        try:
            self._file.execute("BEGIN")
            for kind, (rows, gone) in changes.items():
                self._file.executemany(
                    "INSERT OR REPLACE INTO kept (kind, name, content) VALUES (?, ?, ?)",
                    ((kind, name, content) for name, content in rows),
                )
                self._file.executemany(
                    "DELETE FROM kept WHERE kind = ? AND name = ?", ((kind, name) for name in gone)
                )
            self._file.execute("COMMIT")
        except (sqlite3.Error, UnicodeEncodeError) as error:
            with contextlib.suppress(sqlite3.Error):
                self._file.execute("ROLLBACK")
            raise NotSavedError(_reason(error)) from error

    def close(self) -> None:
        """Let another process have the file."""
        self._file.close()

    def _take(self) -> None:
        """Make sure that the file is good, ours, and nobody else's. Raises BadStoreError."""
        try:
            self._file.execute("PRAGMA locking_mode = EXCLUSIVE")
            self._file.execute("BEGIN EXCLUSIVE")
            application, form = self._number("application_id"), self._number("user_version")
            if application == 0 and self._number("schema_version") == 0:
                self._file.execute(
                    "CREATE TABLE kept (kind TEXT, name TEXT, content BLOB, "
                    "PRIMARY KEY (kind, name)) WITHOUT ROWID"
                )
                self._file.execute(f"PRAGMA application_id = {_APPLICATION}")
                self._file.execute(f"PRAGMA user_version = {_FORM}")
            elif application != _APPLICATION:
                raise sqlite3.DatabaseError(sqlite3.SQLITE_NOTADB)
            elif form != _FORM:
                reason = f"it was written by another version of genguard; {_START_ANEW}"
                raise BadStoreError(f"--store sqlite:{self._path}: {reason}")
            self._file.execute("COMMIT")
            (verdict,) = self._file.execute("PRAGMA quick_check(1)").fetchone()
            if verdict != "ok":
                raise sqlite3.DatabaseError(sqlite3.SQLITE_CORRUPT)
        except sqlite3.Error as error:
            raise BadStoreError(f"--store sqlite:{self._path}: {_reason(error)}") from error

    def _number(self, pragma: str) -> int:
        (value,) = self._file.execute(f"PRAGMA {pragma}").fetchone()
        return int(value)


def _reason(error: Exception) -> str:
    """In words of our own; the low byte of a code is its kind (sqlite.org/rescode.html)."""
    given = error.args[0] if error.args else None
    code = given if isinstance(given, int) else getattr(error, "sqlite_errorcode", 0)
    return _REASONS.get(code & 0xFF, f"SQLite says {type(error).__name__}; {_START_ANEW}")

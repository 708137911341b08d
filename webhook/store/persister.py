"""Keeps findings over a restart: one Persister, and two places where it saves.

A SqliteFile is of one server. A ConfigMap (webhook/cluster/saved_findings.py) is written by the
replica that leads; the others read it, and show its findings until they lead.

The Persister loads before the server starts, and saves what changed every few seconds. A save that
fails is logged once and counted; the next one makes up for it. SqliteFile writes all rows of a save
or none, because a process may be killed at any moment.

A damaged file is moved aside and kept, and the server starts with nothing: answers to the API
server matter more than what was known. A whole database of another program or version is not
damaged: it is neither used nor changed, and the server does not start.
"""

import asyncio
import contextlib
import os
import sqlite3
import time
from collections.abc import (
    AsyncIterator,
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple, Protocol

import msgspec

from genguard.detection.ledger import Mark, Row, Saved
from webhook.election.leader import Leadership
from webhook.files.private import keep_private
from webhook.store.address import BadStoreError
from webhook.tasks.supervisor import Supervisor
from webhook.tasks.threads import in_thread
from webhook.telemetry.logs import LOGGER
from webhook.telemetry.metrics import Metrics

SAVE_SECONDS: Final = 2.0
"""The shortest pause between saves. What a process that is killed found since the last one is
lost."""
START_SECONDS: Final = 3.0
"""How long the start waits for the rows of an earlier process."""
SAVING: Final = "saving findings"
"""The name of the task."""
DAMAGED: Final = "saved state"
"""What the supervisor counts as left out when a damaged file was moved aside."""
_TICK_SECONDS: Final = 1.0
_CALL_SECONDS: Final = 5.0
_MOST_UNREAD: Final = 5
"""So often in a row a replica reads nothing before it says so."""
_BATCH: Final = 50
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
_BESIDE: Final = ("", "-journal", "-wal", "-shm")
"""The files of a database. SQLite would apply an old journal to a new file of the same name."""


class DamagedStoreError(BadStoreError):
    """What is saved cannot be read; the message says why."""


class NotSavedError(Exception):
    """The place cannot be read or written now; the message says why."""


class ChangedError(NotSavedError):
    """Another replica has written there since this one read it."""


class Findings(Protocol):
    """All findings; see Ledger."""

    def snapshot(self) -> Iterator[Saved]:
        """Yield each finding as it is saved, the worst and latest first."""

    def restore(self, rows: Iterable[Row]) -> object:
        """Replace all findings by saved ones.

        Raises msgspec.MsgspecError, ValueError or RecursionError.
        """


class Place(Protocol):
    """Where rows are kept. `str` names it in the log. All methods raise NotSavedError.

    seconds   the shortest pause between saves without news
    is_block  a save replaces all rows and has room for those that are not over; else rows are added
    """

    @property
    def seconds(self) -> float: ...  # noqa: D102 - see above

    @property
    def is_block(self) -> bool: ...  # noqa: D102

    async def load(self) -> Sequence[Row] | None:
        """Return all rows; None where they are still those of the last call.

        Raises DamagedStoreError.
        """

    async def save(self, rows: Sequence[Row], gone: Collection[str]) -> int:
        """Save rows, and forget those that are gone; return how many had no room.

        Raises ChangedError.
        """


class Succession(NamedTuple):
    """What several replicas with one place need: one of them leads and saves.

    take_over  is called with the rows of an earlier leader once this replica leads
    show       is called with those that another one has saved; None: they are not shown here
    """

    leadership: Leadership
    take_over: Callable[[Iterable[Row]], object]
    show: Callable[[Iterable[Row]], object] | None


class Persister:
    """Loads rows (`load`) before the server starts, and saves them while `running`."""

    def __init__(
        self,
        findings: Findings,
        place: Place,
        succession: Succession | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`succession` is None for a place of one server; `clock` gives monotonic seconds."""
        self._findings: Final = findings
        self._place: Final = place
        self._succession: Final = succession
        self._clock: Final = clock
        self._saved: dict[str, Mark] | None = {}
        """What is saved, by its name; None: nobody knows."""
        self._saved_at = self._ticked_at = float("-inf")
        self._has_taken_over = succession is None
        self._unread = 0
        self._is_damaged = False
        """What is saved could not be read: it is left alone until there is something to save."""
        self._is_failing = False
        self._left_out = 0
        self.failures = 0

    async def load(self) -> None:
        """Restore what is saved. Raises BadStoreError; DamagedStoreError where it is damaged.

        Of a place of several replicas never: without it the server starts with nothing.
        """
        try:
            async with asyncio.timeout(START_SECONDS):
                rows = await self._place.load() or ()
            self._restore(rows)
        except (NotSavedError, DamagedStoreError, TimeoutError) as error:
            if self._succession is None:
                raise
            self._is_damaged = isinstance(error, DamagedStoreError)
            self._log_unread(error)
            return
        names = {name for name, _ in rows}
        known = ((one.name, one.mark) for one in self._findings.snapshot())
        self._saved = {name: mark for name, mark in known if name in names}
        if rows:
            facts = {"place": str(self._place), "findings": len(rows)}
            LOGGER.info("findings restored", extra={"facts": facts})

    @asynccontextmanager
    async def running(self, metrics: Metrics, supervisor: Supervisor) -> AsyncIterator[None]:
        """Save while the context is entered and this replica leads, and once at the end."""
        metrics.gauge("genguard_store_save_failures", lambda: float(self.failures))
        over = asyncio.Event()
        supervisor.start(SAVING, lambda: self._run(over))
        try:
            yield
        finally:
            await supervisor.end((SAVING,), ask=over.set)  # not cancelled: a thread may be writing
            with supervisor.guard("save at the end"):
                if self._leads:
                    await self.tick(is_last=True)

    @property
    def _leads(self) -> bool:
        return self._succession is None or self._succession.leadership.is_leader

    async def _run(self, over: asyncio.Event) -> None:
        led = False
        while not over.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_TICK_SECONDS):
                    await over.wait()
                    return
            if led and not self._leads:
                await self.tick(is_last=True)  # the next leader reads what changed since it led
                self._has_taken_over = False
                self._ticked_at = float("-inf")
            led = self._leads
            await (self.tick() if led else self.follow())

    async def tick(self, *, is_last: bool = False) -> None:
        """As the leader, take over what the last one has saved, then save if it is time."""
        if not self._is_time(is_last=is_last):
            return
        try:
            async with asyncio.timeout(_CALL_SECONDS):
                if not self._has_taken_over:
                    await self._take_over()
                await self._save(is_last=is_last)
        except ChangedError:
            self._has_taken_over = False  # read it again
        except (NotSavedError, TimeoutError) as error:
            self._log_failure(str(error) or "no answer in time")
        except Exception:
            self.failures += 1
            raise

    async def follow(self) -> None:
        """As another replica, show what the leader has saved, if that has changed."""
        if self._succession is None or self._succession.show is None or not self._is_time():
            return
        try:
            async with asyncio.timeout(_CALL_SECONDS):
                rows = await self._place.load()
            if rows is not None:
                self._succession.show(rows)
            self._unread = 0
        except (NotSavedError, DamagedStoreError, TimeoutError, *_UNREADABLE) as error:
            self._unread += 1
            if self._unread == _MOST_UNREAD:
                self._log_unread(error)

    def _is_time(self, *, is_last: bool = False) -> bool:
        now = self._clock()
        if now - self._ticked_at < SAVE_SECONDS and not is_last:
            return False
        self._ticked_at = now
        return True

    def _restore(self, rows: Iterable[Row]) -> None:
        try:
            self._findings.restore(rows)
        except _UNREADABLE as error:
            raise DamagedStoreError(f"{self._place}: a row cannot be read") from error

    async def _take_over(self) -> None:
        """Read what is saved. A save before this would lose what an earlier leader has saved."""
        assert self._succession is not None  # noqa: S101 - else it has taken over
        self._saved = {}
        try:
            rows = await self._place.load()
            self._succession.take_over(rows or ())
            if rows or (rows is None and not self._is_damaged):
                self._saved = None  # these may not be the current rows
        except (DamagedStoreError, *_UNREADABLE) as error:
            self._log_unread(error)
        self._has_taken_over = True

    async def _save(self, *, is_last: bool) -> None:
        marks, changed, saved = dict[str, Mark](), list[Saved](), self._saved or {}
        for count, one in enumerate(self._findings.snapshot(), start=1):
            if not (self._place.is_block and one.is_over):
                marks[one.name] = one.mark
                if self._place.is_block or saved.get(one.name) != one.mark:
                    changed.append(one)
            if count % _BATCH == 0:
                await asyncio.sleep(0)
        if not self._is_due(marks, is_last=is_last):
            return
        rows = list[Row]()
        for count, one in enumerate(changed, start=1):
            rows.append((one.name, one.content()))
            if count % _BATCH == 0:
                await asyncio.sleep(0)
        left_out = await self._place.save(rows, saved.keys() - marks.keys())
        self._saved, self._saved_at = marks, self._clock()
        self._log_saved(left_out)

    def _is_due(self, marks: Mapping[str, Mark], *, is_last: bool) -> bool:
        """Whether something changed, and news or time enough for a save."""
        saved = self._saved
        if marks == saved:
            return False
        if saved is None or is_last or self._clock() - self._saved_at >= self._place.seconds:
            return True
        return marks.keys() != saved.keys() or any(
            mark.news != saved[name].news for name, mark in marks.items()
        )

    def _log_unread(self, error: Exception) -> None:
        facts = {"place": str(self._place), "reason": str(error) or type(error).__name__}
        LOGGER.warning("findings not restored", extra={"facts": facts})

    def _log_failure(self, reason: str) -> None:
        self.failures += 1
        if not self._is_failing:
            facts = {"place": str(self._place), "reason": reason}
            LOGGER.warning("findings not saved", extra={"facts": facts})
        self._is_failing = True

    def _log_saved(self, left_out: int) -> None:
        if self._is_failing:
            LOGGER.info("findings are saved again")
        if left_out and not self._left_out:
            facts = {"place": str(self._place), "leftOut": left_out}
            LOGGER.warning("not all findings had room", extra={"facts": facts})
        self._is_failing, self._left_out = False, left_out


_UNREADABLE: Final = (msgspec.MsgspecError, ValueError, RecursionError)


class SqliteFile:
    """A Place: an open file of one server. Earlier versions have kept rows of other kinds too."""

    def __str__(self) -> str:
        return str(self._path)

    def __init__(self, path: Path) -> None:
        """Open or create the file. Raises BadStoreError; DamagedStoreError if it is damaged."""
        self._path: Final = path
        self.seconds: Final = 0.0
        self.is_block: Final = False
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

    async def load(self) -> list[Row]:
        """Return all rows. Raises BadStoreError; DamagedStoreError if it is damaged."""
        if self._is_empty:
            return []
        try:
            found = self._file.execute("SELECT name, content FROM kept WHERE kind = 'findings'")
            return [(str(name), bytes(content)) for name, content in found]
        except sqlite3.Error as error:
            raise _refusal(self._path, error) from error

    async def save(self, rows: Iterable[Row], gone: Iterable[str]) -> int:
        """Write and delete rows, in one transaction. Raises NotSavedError."""
        await in_thread(self._save, rows, gone)
        return 0

    def _save(self, rows: Iterable[Row], gone: Iterable[str]) -> None:
        try:
            self._file.execute("BEGIN")
            if self._is_empty:
                self._make_table()
            self._file.executemany("INSERT OR REPLACE INTO kept VALUES ('findings', ?, ?)", rows)
            self._file.executemany(
                "DELETE FROM kept WHERE kind = 'findings' AND name = ?",
                ((name,) for name in gone),
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


@asynccontextmanager
async def kept_in_file(
    path: Path, findings: Findings, metrics: Metrics, supervisor: Supervisor
) -> AsyncIterator[None]:
    """Load findings from a file, and save them there while the context is entered.

    The file is created if absent. Raises BadStoreError. A damaged file is moved aside: that is
    logged, and counted by the supervisor as DAMAGED.
    """
    found = None
    with supervisor.guard(DAMAGED, DamagedStoreError):
        found = await _loaded(path, findings)
    if found is None:
        aside = move_aside(path, datetime.now(UTC))
        facts = {"file": str(path), "movedTo": str(aside)}
        LOGGER.error("a damaged file was moved aside", extra={"facts": facts})
        found = await _loaded(path, findings)
    file, persister = found
    try:
        async with persister.running(metrics, supervisor):
            yield
    finally:
        await in_thread(file.close)


async def _loaded(path: Path, findings: Findings) -> tuple[SqliteFile, Persister]:
    file = SqliteFile(path)
    persister = Persister(findings, file)
    try:
        await persister.load()
    except BaseException:
        file.close()
        raise
    return file, persister

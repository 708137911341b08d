"""Keeps findings over a restart: one Persister, and two storages.

A SqliteFile belongs to one server. The replica that leads writes a ConfigMap
(webhook/cluster/saved_findings.py); the others read it, and show its findings until they lead.

The Persister loads before the server starts, and saves what changed every few seconds. A save that
fails is logged once and counted; the next one makes up for it. A save replaces all that was saved,
or changes nothing, because a process may be killed at any moment.

A corrupt file is moved aside and kept, and the server starts with nothing: answers to the API
server matter more than what was known. A sound database of another program or version is not
corrupt: it is neither used nor changed, and the server does not start.
"""

import asyncio
import contextlib
import os
import sqlite3
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import ClassVar, Final, Protocol, TypeVar

import msgspec

from genguard.detection.damage import Damage
from genguard.detection.finding import Severity
from genguard.detection.finding_state import FindingState
from genguard.detection.ledger import MOST_BYTES, Ledger, Row
from webhook.election.leader import Leadership
from webhook.files.private import NotPrivateError, keep_private
from webhook.store.address import BadStoreError
from webhook.tasks.supervisor import Supervisor
from webhook.tasks.threads import in_thread
from webhook.telemetry.logs import LOGGER
from webhook.telemetry.metrics import Metrics

T = TypeVar("T")
_Mark = tuple[tuple[str, Severity, Damage | None], tuple[int, float]]
"""Values of a finding, which has not changed if they are equal. The first differ once it is opened,
worse, better or over; the second change with each signal."""

SAVE_SECONDS: Final = 2.0
"""Between two looks whether there is something to save. What is new since the last one is lost with
a process that is killed."""
SAVING: Final = "saving findings"
"""The name of the task."""
CORRUPT: Final = "saved state"
"""What the supervisor counts as left out when a corrupt file was moved aside."""
_CALL_SECONDS: Final = 5.0
"""The longest wait for rows, at the start too, and for a save."""
_BATCH: Final = 50
_APPLICATION: Final = 0x67656E67
"""The application id in the file's header: "geng"."""
_FORM: Final = 1
"""The version of the rows' form; a file of another version is not read."""
_START_ANEW: Final = "move it away to start with nothing, or name another file"
_CORRUPTIONS: Final = frozenset({sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT})
_NO_ROOM: Final = frozenset({sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR})
_CANNOT_OPEN: Final = "it cannot be opened; is its folder there, and may it be written to?"
_IN_USE: Final = "another process uses it; each server needs a file of its own"
_UNREADABLE: Final = (msgspec.MsgspecError, ValueError, RecursionError)


class CorruptStoreError(BadStoreError):
    """What is saved cannot be read; the message says why."""


class NotSavedError(Exception):
    """The storage cannot be read or written now; the message says why."""


class ChangedError(NotSavedError):
    """Another replica has written there since this one read it."""


class Storage(Protocol):
    """Where rows are kept. `str` names it in the log. Both methods raise NotSavedError.

    seconds  the shortest pause between saves in which only counts have changed
    room     in bytes
    """

    seconds: ClassVar[float]
    room: ClassVar[int]

    async def load(self) -> Sequence[Row] | None:
        """Return all rows; None where they are still those of the last call.

        Raises CorruptStoreError.
        """

    async def save(self, rows: Sequence[Row], brief: Sequence[Row]) -> int:
        """Replace all rows; return how many had no room. Raises ChangedError.

        brief  the same rows without examples, where they may not all have room
        """


@dataclass(slots=True)
class Persister:
    """Loads rows (`load`) before the server starts, and saves them while `running`.

    leadership  of several replicas with one storage: the leader saves; None for that of one server
    take_over   is called with the rows of an earlier leader once this replica leads
    show        is called with those that another one has saved; None: they are not shown here
    clock       gives monotonic seconds
    """

    findings: Ledger
    storage: Storage
    leadership: Leadership | None = None
    take_over: Callable[[Iterable[Row]], object] = bool
    show: Callable[[Iterable[Row]], object] | None = None
    clock: Callable[[], float] = time.monotonic
    failures: int = 0
    left_out: int = 0
    """How many findings had no room in the last save."""
    _saved: Mapping[str, _Mark] | None = field(default_factory=dict)
    """What is saved, by its name; None: nobody knows."""
    _saved_at: float = float("-inf")
    _has_taken_over: bool = False
    _is_failing: bool = False

    async def load(self) -> None:
        """Restore what is saved. Raises BadStoreError; CorruptStoreError where it is corrupt.

        With a storage of several replicas it never does: the server starts with nothing then.
        """
        try:
            async with asyncio.timeout(_CALL_SECONDS):
                rows = await self.storage.load() or ()
            self.findings.restore(rows)
        except (NotSavedError, CorruptStoreError, TimeoutError, *_UNREADABLE) as error:
            if self.leadership is not None:
                self._warn("findings not restored", error)
                return
            if isinstance(error, _UNREADABLE):
                raise CorruptStoreError(f"{self.storage}: a row cannot be read") from error
            raise
        self._saved = _marks(self.findings.kept())
        if rows:
            fields = {"location": str(self.storage), "findings": len(rows)}
            LOGGER.info("findings restored", extra={"fields": fields})

    @asynccontextmanager
    async def running(self, metrics: Metrics, supervisor: Supervisor) -> AsyncIterator[None]:
        """Save while the context is entered and this replica leads, and once at the end."""
        metrics.gauge("genguard_store_save_failures", lambda: float(self.failures))
        metrics.gauge("genguard_store_left_out", lambda: float(self.left_out))
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
        return self.leadership is None or self.leadership.is_leader

    async def _run(self, over: asyncio.Event) -> None:
        led = False
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(SAVE_SECONDS):
                    await over.wait()
                    return
            if led and not self._leads:
                await self.tick(is_last=True)  # the next leader reads what changed since it led
                self._has_taken_over = False
            led = self._leads
            await (self.tick() if led else self.mirror())

    async def tick(self, *, is_last: bool = False) -> None:
        """As the leader, take over what the last one has saved, then save what is new."""
        try:
            async with asyncio.timeout(_CALL_SECONDS):
                if self.leadership is not None and not self._has_taken_over:
                    await self._take_over()
                await self._save(is_last=is_last)
        except ChangedError:
            self._has_taken_over = False  # read it again
        except (NotSavedError, TimeoutError) as error:
            self.failures += 1
            if not self._is_failing:
                self._warn("findings not saved", error)
            self._is_failing = True

    async def mirror(self) -> None:
        """As another replica, show what the leader has saved, if that has changed."""
        if self.show is None:
            return
        with contextlib.suppress(NotSavedError, CorruptStoreError, TimeoutError, *_UNREADABLE):
            async with asyncio.timeout(_CALL_SECONDS):
                rows = await self.storage.load()
            if rows is not None:
                self.show(rows)

    async def _take_over(self) -> None:
        """Read what is saved. A save before this would lose what an earlier leader has saved."""
        self._saved = {}
        try:
            rows = await self.storage.load()
            self.take_over(rows or ())
            if rows != ():
                self._saved = None  # these may not be the current rows
        except (CorruptStoreError, *_UNREADABLE) as error:
            self._warn("findings not restored", error)
        self._has_taken_over = True

    async def _save(self, *, is_last: bool) -> None:
        content, found = self.findings.content, self.findings.kept()
        marks = _marks(found)
        if not self._is_due(marks, is_last=is_last):
            return
        rows = [(state.id, content(state)) async for state in _by_and_by(found)]
        brief = rows
        if sum(len(row) for _, row in rows) > self.storage.room:
            known = dict(rows)
            order = [state for state in self.findings.kept(self.storage.room) if state.id in known]
            rows = [(state.id, known[state.id]) for state in order]
            brief = [(state.id, content(state, is_brief=True)) async for state in _by_and_by(order)]
        left_out = await self.storage.save(rows, brief)
        # Those that are resolved are left out first, and nobody misses them.
        left_out = max(left_out - sum(state.state == "resolved" for state in found), 0)
        if self._is_failing:
            LOGGER.info("findings are saved again")
        if left_out and not self.left_out:
            fields = {"location": str(self.storage), "leftOut": left_out}
            LOGGER.warning("not all findings had room", extra={"fields": fields})
        self._saved, self._saved_at = marks, self.clock()
        self._is_failing, self.left_out = False, left_out

    def _is_due(self, marks: Mapping[str, _Mark], *, is_last: bool) -> bool:
        """Whether something changed, and news or time enough for a save."""
        saved = self._saved
        if marks == saved:
            return False
        if saved is None or is_last or self.clock() - self._saved_at >= self.storage.seconds:
            return True
        return marks.keys() != saved.keys() or any(
            mark[0] != saved[name][0] for name, mark in marks.items()
        )

    def _warn(self, message: str, error: Exception) -> None:
        fields = {"location": str(self.storage), "reason": str(error) or type(error).__name__}
        LOGGER.warning(message, extra={"fields": fields})


def _marks(found: Iterable[FindingState]) -> dict[str, _Mark]:
    return {
        state.id: ((state.state, state.severity, state.damage), (state.count, state.last))
        for state in found
    }


async def _by_and_by(items: Iterable[T]) -> AsyncIterator[T]:
    """Yield items, and let others have the event loop now and then."""
    for count, item in enumerate(items, start=1):
        yield item
        if count % _BATCH == 0:
            await asyncio.sleep(0)


class SqliteFile:
    """A Storage: an open file of one server. Earlier versions have kept rows of other kinds too."""

    seconds: ClassVar = 0.0
    room: ClassVar = MOST_BYTES

    def __str__(self) -> str:
        return str(self._path)

    def __init__(self, path: Path) -> None:
        """Open or create the file. Raises BadStoreError; CorruptStoreError if it is corrupt."""
        self._path: Final = path
        with contextlib.ExitStack() as undo:
            try:
                with contextlib.suppress(FileExistsError):
                    # Findings tell about the cluster: only the owner may read them.
                    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
                self._file: Final = sqlite3.connect(
                    path, timeout=0, check_same_thread=False, isolation_level=None
                )
                undo.callback(self._file.close)
                self._take()
                keep_private(path)
            except (OSError, sqlite3.Error) as error:
                raise _unusable(path, error) from error
            undo.pop_all()

    async def load(self) -> list[Row]:
        """Return all rows. Raises BadStoreError; CorruptStoreError if it is corrupt."""
        try:
            if not self._number("schema_version"):
                return []
            found = self._file.execute("SELECT name, content FROM kept WHERE kind = 'findings'")
            return [(str(name), bytes(content)) for name, content in found]
        except sqlite3.Error as error:
            raise _unusable(self._path, error) from error

    async def save(self, rows: Sequence[Row], brief: Sequence[Row] = ()) -> int:
        """Replace all rows, in one transaction. Raises NotSavedError."""
        del brief  # all have room
        await in_thread(self._save, rows)
        return 0

    def _save(self, rows: Sequence[Row]) -> None:
        try:
            with self._file:  # commits, or rolls back
                self._file.execute("BEGIN")
                self._file.execute(
                    "CREATE TABLE IF NOT EXISTS kept (kind TEXT, name TEXT, content BLOB, "
                    "PRIMARY KEY (kind, name)) WITHOUT ROWID"
                )
                self._file.execute(f"PRAGMA application_id = {_APPLICATION}")
                self._file.execute(f"PRAGMA user_version = {_FORM}")
                self._file.execute("DELETE FROM kept WHERE kind = 'findings'")
                self._file.executemany("INSERT INTO kept VALUES ('findings', ?, ?)", rows)
        except sqlite3.Error as error:
            raise NotSavedError(f"SQLite says: {error}") from error

    def close(self) -> None:
        """Close the file; another process may use it then."""
        self._file.close()

    def _take(self) -> None:
        """Lock the file, and check that it is genguard's."""
        self._file.execute("PRAGMA locking_mode = EXCLUSIVE")
        try:
            self._file.execute("BEGIN EXCLUSIVE")
        except sqlite3.Error as error:
            # SQLite writes the first page of an empty file here: the first save tries it again.
            if _code(error) not in _NO_ROOM or self._path.stat().st_size:
                raise
            return
        application, form = self._number("application_id"), self._number("user_version")
        if application or self._number("schema_version"):
            if application != _APPLICATION:
                raise _unusable(self._path, f"it is no file of genguard's; {_START_ANEW}")
            if form != _FORM:
                reason = f"it was written by another version of genguard; {_START_ANEW}"
                raise _unusable(self._path, reason)
        self._file.execute("COMMIT")

    def _number(self, pragma: str) -> int:
        (value,) = self._file.execute(f"PRAGMA {pragma}").fetchone()
        return int(value)


def _code(error: sqlite3.Error) -> int:
    """Return the low byte of SQLite's code, which says what kind of error it is (rescode.html)."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


def _unusable(path: Path, reason: str | Exception) -> BadStoreError:
    kind = BadStoreError
    if isinstance(reason, sqlite3.Error):
        code = _code(reason)
        kind = CorruptStoreError if code in _CORRUPTIONS else BadStoreError
        own = {sqlite3.SQLITE_BUSY: _IN_USE, sqlite3.SQLITE_CANTOPEN: _CANNOT_OPEN}
        reason = own.get(code, f"SQLite says: {reason}; {_START_ANEW}")
    elif isinstance(reason, OSError):
        is_own = isinstance(reason, NotPrivateError)
        reason = reason.strerror or "" if is_own else _CANNOT_OPEN
    return kind(f"--store sqlite:{path}: {reason}")


def move_aside(path: Path, at: datetime) -> Path:
    """Rename a corrupt file and what SQLite keeps beside it; return the new path.

    SQLite would apply an old journal to a new file of the same name. Raises BadStoreError when its
    folder does not allow it.
    """
    aside = path.with_name(f"{path.name}.corrupt-{at:%Y%m%dT%H%M%S.%fZ}")
    for end in ("", "-journal", "-wal", "-shm"):
        try:
            path.with_name(path.name + end).rename(aside.with_name(aside.name + end))
        except FileNotFoundError:
            continue
        except OSError as error:
            reason = f"it is damaged, and cannot be moved aside: {error.strerror}"
            raise _unusable(path, reason) from error
    return aside


@asynccontextmanager
async def kept_in_file(
    path: Path, findings: Ledger, metrics: Metrics, supervisor: Supervisor
) -> AsyncIterator[None]:
    """Load findings from a file, and save them there while the context is entered.

    The file is created if absent. Raises BadStoreError. A corrupt file is moved aside: that is
    logged, and counted by the supervisor as DAMAGED.
    """
    found = None
    with supervisor.guard(CORRUPT, CorruptStoreError):
        found = await _loaded(path, findings)
    if found is None:
        aside = move_aside(path, datetime.now(UTC))
        fields = {"file": str(path), "movedTo": str(aside)}
        LOGGER.error("a damaged file was moved aside", extra={"fields": fields})
        found = await _loaded(path, findings)
    file, persister = found
    try:
        async with persister.running(metrics, supervisor):
            yield
    finally:
        await in_thread(file.close)


async def _loaded(path: Path, findings: Ledger) -> tuple[SqliteFile, Persister]:
    file = SqliteFile(path)
    persister = Persister(findings, file)
    try:
        await persister.load()
    except BaseException:
        file.close()
        raise
    return file, persister

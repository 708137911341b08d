"""A file of rows: what it keeps, and what it refuses without a change to the file."""

import contextlib
import os
import resource
import sqlite3
from collections.abc import Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from genguard.detection.ledger import Ledger
from genguard.detection.mutators import Mutators
from tests.unit.detection.builders import rows_of
from tests.unit.detection.test_ledger import SIGN, WRITE
from webhook.store.address import BadStoreError
from webhook.store.persister import (
    CORRUPT,
    CorruptStoreError,
    NotSavedError,
    SqliteFile,
    kept_in_file,
)
from webhook.tasks.supervisor import Supervisor
from webhook.telemetry.metrics import Metrics


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state.db"


async def saved(path: Path, *rows: tuple[str, bytes]) -> None:
    file = SqliteFile(path)
    await file.save(rows)
    file.close()


async def loaded(path: Path) -> dict[str, bytes]:
    file = SqliteFile(path)
    found = dict(await file.load())
    file.close()
    return found


@contextlib.contextmanager
def disk_full() -> Iterator[None]:
    """No file gets longer."""
    _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, most))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))


async def test_nobody_else_may_read_the_file(path):
    await saved(path, ("a", b"1"))
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("mode", [0o666, 0o644, 0o660])
async def test_a_file_that_others_may_read_is_taken_from_them(path, mode, caplog):
    await saved(path, ("a", b"1"))
    path.chmod(mode)
    assert await loaded(path) == {"a": b"1"}
    assert path.stat().st_mode & 0o777 == 0o600
    (line,) = caplog.records
    assert line.fields == {"file": str(path), "before": f"{mode:04o}", "now": "0600"}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a file of somebody else")
async def test_a_file_of_another_user_is_refused(path):
    await saved(path, ("a", b"1"))
    os.chown(path, 65_532, -1)
    with pytest.raises(BadStoreError, match=f"--store sqlite:{path}: it belongs to another user"):
        SqliteFile(path)


async def test_all_of_a_save_is_there_or_nothing(path):
    await saved(path, ("a", b"1"))
    file = SqliteFile(path)
    with pytest.raises(NotSavedError):
        await file.save([("b", b"2"), ("c", object())])
    file.close()
    assert await loaded(path) == {"a": b"1"}


async def test_a_disk_that_refuses_it_is_said_and_the_next_save_is_as_good_as_ever(
    path: Path,
) -> None:
    file = SqliteFile(path)
    with disk_full(), pytest.raises(NotSavedError, match="disk I/O error"):
        await file.save([("a", b"1")])
    await file.save([("a", b"1")])
    file.close()
    assert await loaded(path) == {"a": b"1"}


@asynccontextmanager
async def kept(path: Path, findings: Ledger, supervisor: Supervisor | None = None):
    metrics = Metrics(lambda group, resource: False)
    async with kept_in_file(path, findings, metrics, supervisor or Supervisor()):
        yield


@pytest.mark.parametrize("before", [b"", b"damaged"])
async def test_a_disk_that_is_full_at_the_start_keeps_no_server_from_starting(
    path: Path, before, caplog
) -> None:
    """A disk that is full is also what damages files."""
    path.write_bytes(before)
    findings = Ledger(Mutators())
    async with AsyncExitStack() as stack:
        with disk_full():
            await stack.enter_async_context(kept(path, findings))
        findings.add("spec-fight", SIGN, WRITE)
        with pytest.raises(BadStoreError, match="another process uses it"):
            SqliteFile(path)
    assert await loaded(path) == dict(rows_of(findings)) != {}


async def _text(path: Path) -> None:
    path.write_text("kind: Secret\n" * 100)


async def _database_of_others(path: Path) -> None:
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE theirs (a)")
    other.close()


async def _newer(path: Path) -> None:
    await saved(path, ("a", b"1"))
    with sqlite3.connect(path) as file:
        file.execute("PRAGMA user_version = 2")
    file.close()


async def _damaged(path: Path) -> None:
    await saved(path, *((str(number), b"x" * 500) for number in range(100)))
    content = bytearray(path.read_bytes())
    content[4096:] = b"\x5a" * (len(content) - 4096)
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("make", "advice"),
    [
        (_database_of_others, "no file of genguard's; move it away to start with nothing"),
        (_newer, "another version of genguard"),
    ],
)
async def test_a_database_of_others_is_refused_and_left_as_it_is(path, make, advice):
    await make(path)
    before = path.read_bytes()
    with pytest.raises(BadStoreError, match=f"--store sqlite:{path}: .*{advice}") as refused:
        SqliteFile(path)
    assert not isinstance(refused.value, CorruptStoreError)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "make", [_damaged, pytest.param(_text, id="something else was written to it")]
)
async def test_a_damaged_file_is_moved_aside_whole_and_the_start_goes_on(path, make):
    await make(path)
    before = path.read_bytes()
    journal = path.with_name("state.db-journal")
    journal.write_bytes(b"of the damaged one")
    supervisor = Supervisor()
    async with kept(path, Ledger(Mutators()), supervisor):
        pass
    (aside,) = (one for one in path.parent.glob("state.db.corrupt-*") if "journal" not in one.name)
    assert aside.read_bytes() == before
    assert not journal.exists(), "SQLite would apply it to the new file"
    assert supervisor.left_out == {CORRUPT: 1}
    await saved(path, ("a", b"2"))
    assert await loaded(path) == {"a": b"2"}

"""What is saved when: only what changed, once more at the end, and again what failed."""

from collections.abc import Mapping

import pytest

from webhook.store.state import (
    DAMAGED,
    Changes,
    DamagedStoreError,
    NotSavedError,
    SqliteFile,
    StatePersister,
)
from webhook.tasks.supervisor import Supervisor
from webhook.telemetry.metrics import Metrics


class Notes:
    """Something to keep: a dictionary of texts."""

    def __init__(self) -> None:
        self.kept: dict[str, str] = {}

    def marks(self):
        yield from list(self.kept.items())

    def export(self, name):
        return self.kept[name].encode()

    def restore(self, rows):
        for name, content in rows:
            self.kept[name] = content.decode("ascii")


class Disk:
    """Rows in memory; `full` refuses them."""

    def __init__(self, **rows: bytes) -> None:
        self.rows = dict(rows)
        self.full = False
        self.closed = False
        self.saves: list[tuple[dict[str, bytes], set[str]]] = []

    def load(self, kind):
        return list(self.rows.items())

    def save(self, changes: Mapping[str, Changes]):
        if self.full:
            raise NotSavedError("the disk is full")
        (change,) = changes.values()
        self.saves.append((dict(change.rows), set(change.gone)))
        self.rows |= dict(change.rows)
        for name in change.gone:
            del self.rows[name]

    def close(self):
        self.closed = True


async def test_only_what_changed_is_saved():
    disk, notes = Disk(a=b"1", b=b"2"), Notes()
    keeping = StatePersister(disk, {"notes": notes})
    assert notes.kept == {"a": "1", "b": "2"}
    await keeping.save()
    assert disk.saves == []
    notes.kept |= {"b": "3", "c": "4"}
    del notes.kept["a"]
    await keeping.save()
    await keeping.save()
    assert disk.saves == [({"b": b"3", "c": b"4"}, {"a"})]


async def test_many_are_saved_as_few_are():
    disk, notes = Disk(), Notes()
    keeping = StatePersister(disk, {"notes": notes})
    notes.kept = {str(number): "x" for number in range(1_001)}
    await keeping.save()
    assert len(disk.rows) == 1_001


async def test_what_could_not_be_saved_is_saved_later(caplog):
    disk, notes = Disk(a=b"1"), Notes()
    keeping = StatePersister(disk, {"notes": notes})
    disk.full = True
    notes.kept = {"b": "2"}
    await keeping.save()
    await keeping.save()
    assert keeping.failures == 2
    assert [record.message for record in caplog.records] == ["state not saved"], "told once"
    disk.full = False
    await keeping.save()
    assert disk.rows == {"b": b"2"}


@pytest.mark.parametrize("place", ["while rows are collected", "while they are written"])
async def test_what_a_save_that_ended_by_a_fault_did_not_write_is_written_by_the_next(
    place, monkeypatch
):
    disk, notes = Disk(kept=b"1", gone=b"2"), Notes()
    keeping = StatePersister(disk, {"notes": notes})

    def fail(_):
        raise ZeroDivisionError

    notes.kept = {"kept": "3", "new": "4"}
    with monkeypatch.context() as broken:
        if place == "while they are written":
            broken.setattr(disk, "save", fail)
        else:
            export = notes.export
            broken.setattr(
                notes, "export", lambda name: fail(name) if name == "new" else export(name)
            )
        with pytest.raises(ZeroDivisionError):
            await keeping.save()
    await keeping.save()
    assert disk.rows == {"kept": b"3", "new": b"4"}


async def test_the_end_is_saved_too():
    disk, notes = Disk(), Notes()
    async with StatePersister(disk, {"notes": notes}).running(
        Metrics(lambda group, resource: False), Supervisor()
    ):
        notes.kept = {"last": "word"}
    assert disk.rows == {"last": b"word"}
    assert disk.closed


def test_rows_that_cannot_be_read_are_reported():
    disk = Disk(a=b"\xff")
    with pytest.raises(DamagedStoreError, match="notes cannot be read"):
        StatePersister(disk, {"notes": Notes()})
    assert disk.closed


async def test_what_could_be_read_of_a_damaged_file_is_saved_in_the_new_one(tmp_path, caplog):
    path, supervisor = tmp_path / "state.db", Supervisor()
    file = SqliteFile(path)
    file.save({"good": Changes([("a", b"1")], ()), "bad": Changes([("b", b"\xff")], ())})
    file.close()
    good, bad = Notes(), Notes()
    keeping = StatePersister.opened(path, {"good": good, "bad": bad}, supervisor)
    async with keeping.running(Metrics(lambda group, resource: False), supervisor):
        assert (good.kept, bad.kept) == ({"a": "1"}, {})
    (aside,) = tmp_path.glob("state.db.damaged-*")
    new, old = SqliteFile(path), SqliteFile(aside)
    assert (new.load("good"), new.load("bad")) == ([("a", b"1")], [])
    assert old.load("bad") == [("b", b"\xff")], "kept for whoever wants to look"
    new.close()
    old.close()
    assert supervisor.left_out == {DAMAGED: 1}
    (line,) = [one for one in caplog.records if one.message == "a damaged file was moved aside"]
    assert line.facts == {"file": str(path), "movedTo": str(aside)}

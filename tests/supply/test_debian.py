"""A program on PATH is used as it was found, and a setup that fails leaves nothing open."""

import gc
from pathlib import Path

import pytest

from tests.beside import OnLoop
from tests.controlplane.processes import ServerFailedError
from tests.debian import Packages
from tests.store.server import StoreServer

PACKAGES = Packages(
    "pretended",
    {"valkey-server": ("valkey-server", "redis-server")},
    (("redis-server",),),
    "https://example.org",
)


@pytest.fixture(autouse=True)
def bin_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder that is first on PATH; the cache is empty too."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return folder


def put(path: Path, script: str = "#!/bin/sh\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(script)
    path.chmod(0o755)
    return path


def unpack() -> Path:
    """Puts what an earlier run has unpacked into the cache; returns the program's path."""
    (PACKAGES.folder / "usr/lib/x86_64-linux-gnu").mkdir(parents=True)
    return put(PACKAGES.folder / "usr/bin/redis-server")


def test_a_program_that_is_a_link_keeps_its_name(bin_folder: Path) -> None:
    """Debian's redis-server is a link to redis-check-rdb, which acts by the name it is called."""
    put(bin_folder / "redis-check-rdb")
    (bin_folder / "redis-server").symlink_to("redis-check-rdb")
    assert PACKAGES.binary("valkey-server") == bin_folder / "redis-server"


def test_a_relative_path_is_made_absolute(
    bin_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Servers are started in a folder of their own."""
    put(bin_folder / "redis-server")
    monkeypatch.chdir(bin_folder.parent)
    monkeypatch.setenv("PATH", "bin")
    assert PACKAGES.binary("valkey-server") == bin_folder / "redis-server"


def test_a_program_on_path_gets_no_library_of_an_unpacked_one(bin_folder: Path) -> None:
    unpack()
    put(bin_folder / "redis-server")
    assert PACKAGES.environment("valkey-server") == {}


def test_an_unpacked_program_gets_the_libraries_unpacked_with_it() -> None:
    program = unpack()
    assert PACKAGES.binary("valkey-server") == program
    libraries = str(PACKAGES.folder / "usr/lib/x86_64-linux-gnu")
    assert PACKAGES.environment("valkey-server") == {"LD_LIBRARY_PATH": libraries}


def test_a_store_that_does_not_start_leaves_no_process_and_no_folder(bin_folder: Path) -> None:
    put(bin_folder / "redis-server", "#!/bin/sh\necho 'not a server' >&2\nexit 3\n")
    store = StoreServer()
    with pytest.raises(ServerFailedError, match="not a server"):
        store.__enter__()
    assert not store.folder.exists()
    del store
    gc.collect()  # what is still open would be told now, and fail this test


def test_what_fails_to_begin_leaves_no_event_loop_and_no_thread() -> None:
    class Fails(OnLoop):
        async def _begin(self) -> None:
            raise OSError("the port is taken")

    failing = Fails()
    with pytest.raises(OSError, match="the port is taken"):
        failing.__enter__()
    assert failing._loop.is_closed()
    assert not failing._thread.is_alive()

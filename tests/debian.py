"""Programs out of Debian's packages, downloaded by apt-get and unpacked into a cache.

The lists are its own: nothing is installed, no service starts, and it needs no root.
"""

import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.locking import locked

_SECONDS = 300.0
# What is missing here, and nothing that is there: the system's own status says which.
_MISSING = (
    *("install", "--download-only", "--yes", "--no-install-recommends"),
    *("-oDir::State::status=/var/lib/dpkg/status", "-oDebug::NoLocking=true"),
)


class NotFoundError(Exception):
    """A program is not here and cannot be had; the message says what to do."""


def _as_it_is(folder: Path) -> None:
    """What is unpacked runs from anywhere."""
    del folder


@dataclass(frozen=True)
class Packages:
    """Where some programs come from.

    name       of their folder in the cache
    programs   each, and what it is called upstream and by Debian
    packages   one choice after the other, for not every release has the first
    upstream   where people who have no Debian get them
    libraries  whether the packages' dependencies are needed too
    prepare    makes what is unpacked run from where it is
    """

    name: str
    programs: Mapping[str, tuple[str, ...]]
    packages: tuple[tuple[str, ...], ...]
    upstream: str
    libraries: bool = False
    prepare: Callable[[Path], None] = _as_it_is

    def binary(self, program: str) -> Path:
        """The path of one of the programs: on PATH, or else unpacked now or earlier."""
        installed = self._installed(program)
        if installed is not None:
            return installed
        found = self._unpacked(program)
        if found is None:
            with locked(self.folder.parent / ".lock"):
                if not self.folder.exists():  # another process may have been faster
                    self._unpack()
            found = self._unpacked(program)
        if found is None:
            raise NotFoundError(f"Debian's packages hold no {program}; see {self.folder}")
        return found

    @property
    def folder(self) -> Path:
        """Where they are unpacked."""
        home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        try:
            system = platform.freedesktop_os_release()
        except OSError:
            system = {}
        release = f"{system.get('ID', 'unknown')}-{system.get('VERSION_ID', 'rolling')}"
        return home / "genguard" / self.name / f"{release}-{platform.machine()}"

    def environment(self, program: str) -> dict[str, str]:
        """The variables by which a program finds its libraries; none where it is on PATH."""
        if self._installed(program) is not None:
            return {}
        folders = sorted(map(str, self.folder.glob("usr/lib/*-linux-*")))
        return {"LD_LIBRARY_PATH": os.pathsep.join(folders)} if folders else {}

    def _installed(self, program: str) -> Path | None:
        """The path on PATH, with its symbolic links: some programs look at the name they have.

        Debian's redis-server is a link to redis-check-rdb, and acts by the name.
        """
        paths = (shutil.which(called) for called in self.programs[program])
        found = next((path for path in paths if path is not None), None)
        return None if found is None else Path(found).absolute()

    def _unpacked(self, program: str) -> Path | None:
        paths = (self.folder / "usr" / "bin" / called for called in self.programs[program])
        return next((path for path in paths if path.exists()), None)

    def _unpack(self) -> None:
        if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
            raise NotFoundError(
                f"Put {', '.join(self.programs)} on PATH ({self.upstream}): they are not there, "
                "and this is no Debian or Ubuntu to take packages from."
            )
        print(f"{self.name}: unpacking in {self.folder}", file=sys.stderr, flush=True)
        with tempfile.TemporaryDirectory(dir=self.folder.parent) as work:
            state, cache, found = (Path(work) / name for name in ("state", "cache", "found"))
            archives = cache / "archives"
            for made in (state / "lists" / "partial", archives / "partial", found):
                made.mkdir(parents=True)
            own = [f"-oDir::State={state}", f"-oDir::Cache={cache}", "-oAPT::Sandbox::User="]
            self._run(["apt-get", "-qq", *own, "update"], found)
            way = _MISSING if self.libraries else ("download",)
            self._first([["apt-get", "-qq", *own, *way, *some] for some in self.packages], found)
            unpacked = Path(work) / "unpacked"
            for package in sorted((*found.glob("*.deb"), *archives.glob("*.deb"))):
                self._run(["dpkg-deb", "--extract", str(package), str(unpacked)], found)
            self.prepare(unpacked)
            unpacked.rename(self.folder)  # in one step: nobody ever runs half a binary

    def _first(self, commands: Sequence[Sequence[str]], folder: Path) -> None:
        for command in commands[:-1]:
            try:
                return self._run(command, folder)
            except NotFoundError:
                continue
        return self._run(commands[-1], folder)

    def _run(self, command: Sequence[str], folder: Path) -> None:
        try:
            done = subprocess.run(
                command, cwd=folder, capture_output=True, text=True, timeout=_SECONDS, check=False
            )
        except subprocess.TimeoutExpired as error:
            raise NotFoundError(f"{command[0]} took more than {_SECONDS:g} s") from error
        if done.returncode != 0:
            raise NotFoundError(
                f"{command[0]} exited with {done.returncode}; put {', '.join(self.programs)} on "
                f"PATH ({self.upstream}):\n{done.stdout}{done.stderr}"
            )

    def main(self) -> None:
        """Prints where each program is."""
        try:
            for program in self.programs:
                print(self.binary(program))
        except NotFoundError as error:
            sys.exit(f"{self.name}: {error}")

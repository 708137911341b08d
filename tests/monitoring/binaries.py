"""Finds Prometheus, promtool and Alertmanager: `python -m tests.monitoring.binaries`.

On PATH first. Elsewhere Debian's packages are downloaded by apt-get and unpacked into a cache,
with lists of their own: nothing is installed, no service starts, and it needs no root. What is
unpacked runs from anywhere but for one path in Debian's Alertmanager: see `relocate`.
"""

import fcntl
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

NAMES = {
    "prometheus": ("prometheus",),
    "promtool": ("promtool",),
    "alertmanager": ("alertmanager", "prometheus-alertmanager"),
}
"""A program, and what it is called upstream and by Debian."""

_PACKAGES = ("prometheus", "prometheus-alertmanager")
_SECONDS = 300.0
_TEMPLATES = "usr/share/prometheus/alertmanager"


class NotFoundError(Exception):
    """A program is not here and cannot be had; the message says what to do."""


def binary(name: str) -> Path:
    """The path of one program of NAMES."""
    for called in NAMES[name]:
        path = shutil.which(called)
        if path is not None:
            return Path(path).resolve()
    folder = _cache_folder()
    for called in NAMES[name]:
        unpacked = folder / "usr" / "bin" / called
        if not unpacked.exists():
            with _locked(folder.parent):
                if not folder.exists():  # another process may have unpacked while this one waited
                    _unpack(folder)
        if unpacked.exists():
            return unpacked
    raise NotFoundError(f"Debian's packages {_PACKAGES} hold no {name}; see {folder}")


def _cache_folder() -> Path:
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    try:
        system = platform.freedesktop_os_release()
    except OSError:
        system = {}
    release = f"{system.get('ID', 'unknown')}-{system.get('VERSION_ID', 'rolling')}"
    return home / "genguard" / "monitoring" / f"{release}-{platform.machine()}"


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Lets one process unpack at a time; the kernel drops the lock of a process that dies."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _unpack(folder: Path) -> None:
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        raise NotFoundError(
            "Put prometheus, promtool and alertmanager on PATH (https://prometheus.io/download): "
            "they are not there, and this is no Debian or Ubuntu to take packages from."
        )
    print(f"monitoring: unpacking {', '.join(_PACKAGES)} in {folder}", file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as work:
        state, cache, found = (Path(work) / name for name in ("state", "cache", "found"))
        for made in (state / "lists" / "partial", cache / "archives" / "partial", found):
            made.mkdir(parents=True)
        own = [f"-oDir::State={state}", f"-oDir::Cache={cache}", "-oAPT::Sandbox::User="]
        _run(["apt-get", "-qq", *own, "update"], found)
        _run(["apt-get", "-qq", *own, "download", *_PACKAGES], found)
        unpacked = Path(work) / "unpacked"
        for package in sorted(found.glob("*.deb")):
            _run(["dpkg-deb", "--extract", str(package), str(unpacked)], found)
        relocate(unpacked / "usr" / "bin" / "prometheus-alertmanager")
        unpacked.rename(folder)  # in one step: nobody ever runs half a binary


def relocate(program: Path) -> None:
    """Makes an Alertmanager read its templates from the folder that it is started in.

    Debian compiles the path of the installed ones in; upstream compiles the templates in.
    """
    path = f"/{_TEMPLATES}".encode()
    here = b".".ljust(len(path), b"/")  # of the same length, and followed by /default.tmpl
    program.write_bytes(program.read_bytes().replace(path, here))


def files_beside(folder: Path) -> None:
    """Puts what an unpacked Alertmanager looks for where it is about to be started."""
    binary("alertmanager")
    templates = _cache_folder() / _TEMPLATES
    for template in templates.glob("*.tmpl"):
        shutil.copy(template, folder)


def _run(command: Sequence[str], folder: Path) -> None:
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=_SECONDS, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise NotFoundError(f"{command[0]} took more than {_SECONDS:g} s") from error
    if done.returncode != 0:
        raise NotFoundError(
            f"{command[0]} exited with {done.returncode}; install {' and '.join(_PACKAGES)}, or "
            f"put the programs on PATH:\n{done.stdout}{done.stderr}"
        )


def main() -> None:
    """Prints where each program is."""
    try:
        for name in NAMES:
            print(binary(name))
    except NotFoundError as error:
        sys.exit(f"monitoring: {error}")


if __name__ == "__main__":
    main()

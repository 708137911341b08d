"""What one process alone sees of this machine: `Genguard(within=apart("mount ..."))`.

unshare(1) gives it mounts of its own; that takes unprivileged user namespaces, or root.
"""

import contextlib
import functools
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

_WAYS = (("--mount",), ("--user", "--map-root-user", "--mount"))


def apart(script: str) -> tuple[str, ...]:
    """The beginning of a command line: a shell runs the script, and becomes the rest.

    The process keeps its id, and the working directory, which is the Genguard's folder.
    """
    return (*_unshare(), "sh", "-ec", f'{script}\nexec "$@"', "sh")


@functools.cache
def _unshare() -> tuple[str, ...]:
    said = ""
    for way in _WAYS:
        command = ("unshare", *way)
        tried = subprocess.run(
            [*command, "mount", "-t", "tmpfs", "none", "/mnt"],
            capture_output=True,
            text=True,
            check=False,
        )
        if tried.returncode == 0:
            return command
        said += tried.stderr
    raise AssertionError(f"neither root nor unprivileged user namespaces here:\n{said}")


class Names:
    """What names one process can resolve: it has an /etc of its own.

    Whoever looks up a name opens /etc/hosts. Where that is a pipe into which nobody writes, he
    waits, as for a name server that is lost.
    """

    def __init__(self, folder: Path, known: str) -> None:
        """`folder`: the Genguard's. `known`: lines of /etc/hosts."""
        self._hosts, self._known = folder / "etc" / "hosts", known

    @staticmethod
    def script(known: str) -> str:
        """For `apart`."""
        return f"""
cp -R /etc etc 2>&1 || :  # but for what only root may read
echo 'nameserver 127.0.0.1' > etc/resolv.conf  # where nobody listens
echo '{known}' > etc/hosts
mount --bind etc /etc"""

    def forget(self) -> None:
        """No name is known."""
        self._put(lambda path: path.write_text(""))

    def fall_silent(self) -> None:
        """Nobody gets an answer."""
        self._put(os.mkfifo)

    def come_back(self) -> None:
        """All is as it was; who has waited learns that there is no such name."""
        was = self._hosts.rename(self._hosts.with_suffix(".was"))
        self._put(lambda path: path.write_text(f"{self._known}\n"))
        with contextlib.suppress(OSError):  # nobody has waited
            os.close(os.open(was, os.O_WRONLY | os.O_NONBLOCK))
        was.unlink()

    def _put(self, make: Callable[[Path], object]) -> None:
        """In one step, for it is looked at all the time."""
        path = self._hosts.with_suffix(".new")
        make(path)
        path.replace(self._hosts)

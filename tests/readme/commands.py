"""The commands that README and docs/ show, and a shell to run them in."""

import os
import re
import shlex
import subprocess
import sys
import threading
from pathlib import Path

from tests.controlplane.build import binary
from tests.e2e.genguard import ROOT

DOCUMENTS = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
_BLOCK = re.compile(r"^```(\w*(?: title=\S+)?)\n(.*?)^```", re.DOTALL | re.MULTILINE)
_SECONDS = 120.0


def blocks(language: str, documents: tuple[Path, ...] = DOCUMENTS) -> list[str]:
    """Every fenced block of a language."""
    return [
        content
        for document in documents
        for name, content in _BLOCK.findall(document.read_text())
        if name == language
    ]


def commands(block: str) -> list[str]:
    """Each command of a block: the comment behind it left out, quotes over several lines kept."""
    found, begun = [], ""
    for line in block.splitlines():
        begun = f"{begun}\n{line}" if begun else line
        try:
            words = shlex.split(begun, comments=True)
        except ValueError:  # the quotation goes on in the next line
            continue
        if words:
            found.append(re.sub(r"\s+# .*$", "", begun) if "\n" not in begun else begun)
        begun = ""
    return found


def commands_of(page: str) -> list[str]:
    """Each command that a page of docs/ shows."""
    found = _BLOCK.findall((ROOT / "docs" / page).read_text())
    return [one for name, content in found if name == "sh" for one in commands(content)]


class Shell:
    """A folder to type in, with genguard and kubectl on PATH and the kubeconfig of a cluster."""

    def __init__(self, folder: Path, kubeconfig: Path) -> None:
        self.folder = folder
        programs = folder / "bin"
        programs.mkdir()
        path = os.pathsep.join((str(ROOT), *filter(None, sys.path)))
        start = f'#!/bin/sh\nPYTHONPATH={path} exec {sys.executable} -m webhook "$@"\n'
        (programs / "genguard").write_text(start)
        (programs / "genguard").chmod(0o755)
        (programs / "kubectl").symlink_to(binary("kubectl"))
        self._env = {
            "PATH": f"{programs}:{os.environ['PATH']}",
            "HOME": str(folder),
            "KUBECONFIG": str(kubeconfig),
        }

    def run(self, command: str, *, code: int = 0) -> str:
        """What it prints. It must end with this code."""
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", command],
            cwd=self.folder,
            env=self._env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
        assert done.returncode == code, f"{command}: {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout

    def run_and_agree(self, command: str) -> str:
        """What it shows on a terminal, to a person who answers each question with y."""
        own, theirs = os.openpty()
        run = subprocess.Popen(
            ["bash", "-c", command],
            cwd=self.folder,
            env=self._env,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)
        os.write(own, b"y\n")
        said = bytearray()
        reading = threading.Thread(target=_read, args=(own, said))
        reading.start()
        code = run.wait(_SECONDS)
        reading.join()
        os.close(own)
        assert code == 0, f"{command}: {code}\n{said.decode()}"
        return said.decode().replace("\r\n", "\n")


def _read(terminal: int, said: bytearray) -> None:
    while True:
        try:
            part = os.read(terminal, 4096)
        except OSError:  # the last program that had it is gone
            return
        said += part

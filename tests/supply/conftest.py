"""What is shipped, installed once for the tests of a worker."""

import subprocess
import sys
from pathlib import Path

import pytest

from tools.locked import LOCK
from tools.wheel import build, copy_source

_SECONDS = 240.0


@pytest.fixture(scope="session")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel as the Dockerfile installs it: hashes of all files are checked, none is built."""
    folder = tmp_path_factory.mktemp("environment")
    wheel = build(copy_source(folder / "source"), folder)
    made = folder / "environment"
    pip = (sys.executable, "-m", "pip", "--python", f"{made}/bin/python", "install", "--quiet")
    # Compiling would take longest, and is no part of the claim.
    install = (*pip, "--no-compile", "--no-deps")
    hashed = ("--require-hashes", "--only-binary", ":all:", "-r", str(LOCK))
    for command in (
        (sys.executable, "-m", "venv", "--without-pip", str(made)),
        (*install, *hashed),
        (*install, "--no-index", str(wheel)),
    ):
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_SECONDS, check=False
        )
        assert done.returncode == 0, done.stderr
    return made

"""Builds both wheels, the same bytes from the same files: `python -m tools.wheel [FOLDER]`.

An archive keeps a time and a mode of each file. The time is that of the last commit, or
SOURCE_DATE_EPOCH (https://reproducible-builds.org/specs/source-date-epoch/), and the modes are set,
so that neither the clock nor a umask gets into it. What packs is the one locked setuptools; another
zlib may still compress otherwise.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
LIBRARY = "genguard"
"""The folder of the distribution `genguard`; that of `genguard-webhook` is the one above it."""
_PARTS = {"webhook", "certs", "manifests", LIBRARY, "pyproject.toml", "README.md", "LICENSE"}
_BACKEND = "import sys, setuptools.build_meta as b; print(b.build_wheel(sys.argv[1]))"


def copy_source(to: Path) -> Path:
    """Copies what a wheel is made of: the files that git knows, or would take. Returns `to`."""
    known = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(known, cwd=ROOT, capture_output=True, check=True).stdout.decode()
    for name in filter(None, listed.split("\0")):
        if name.partition("/")[0] in _PARTS:
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            (to / name).write_bytes((ROOT / name).read_bytes())
            (to / name).chmod(0o644)
    return to


def build(source: Path, to: Path) -> Path:
    """Makes a wheel of a copied source in the folder `to`, and returns its path."""
    to.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        [sys.executable, "-c", _BACKEND, str(to.resolve())],
        cwd=source,
        env={**os.environ, "SOURCE_DATE_EPOCH": str(committed())},
        umask=0o022,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(f"setuptools exited with {done.returncode}:\n{done.stderr}")
    return to / done.stdout.splitlines()[-1]


def committed() -> int:
    """When the last commit was made, in seconds since 1970; SOURCE_DATE_EPOCH where it is set."""
    last = ["git", "log", "-1", "--format=%ct"]
    return int(
        os.environ.get("SOURCE_DATE_EPOCH")
        or subprocess.run(last, cwd=ROOT, capture_output=True, check=True).stdout
    )


def main() -> None:
    """Builds the server's and the library's, and prints their paths."""
    to = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "dist"
    with tempfile.TemporaryDirectory() as folder:
        source = copy_source(Path(folder))
        print(build(source, to), build(source / LIBRARY, to), sep="\n")


if __name__ == "__main__":
    main()

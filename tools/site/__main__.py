"""Builds the documents as a site: `python3 -m tools.site` writes build/site.

mkdocs runs in an environment of its own, since nothing else needs its packages. The environment is
made once from requirements-docs.lock, and kept in the cache.
"""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

from tests.locking import locked

ROOT = Path(__file__).parents[2]
LOCK = ROOT / "requirements-docs.lock"
SITE = ROOT / "build" / "site"


class BuildError(Exception):
    """mkdocs or pip failed; the message is what it said."""


def build(folder: Path = SITE, root: Path = ROOT) -> None:
    """Write the site of a checkout into this folder. A broken link raises BuildError."""
    _run([str(_python()), "-m", "mkdocs", "build", "--site-dir", str(folder)], root)


def _python() -> Path:
    """The interpreter of the environment; makes it where it is missing."""
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    digest = hashlib.sha256(LOCK.read_bytes()).hexdigest()[:12]
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    environment = home / "genguard" / "docs" / f"{version}-{digest}"
    python, done = environment / "bin" / "python", environment / ".installed"
    with locked(environment.parent / ".lock"):
        if not done.exists():
            print(f"install mkdocs-material into {environment}", file=sys.stderr, flush=True)
            _run([sys.executable, "-m", "venv", "--clear", str(environment)])
            pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
            _run([*pip, "--require-hashes", "-r", str(LOCK)])
            done.touch()
    return python


def _run(command: list[str], folder: Path = ROOT) -> None:
    env = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BuildError(done.stdout + done.stderr)


if __name__ == "__main__":
    try:
        build()
    except BuildError as error:
        sys.exit(str(error))
    print(f"{SITE.relative_to(ROOT)}: python3 -m http.server -d {SITE.relative_to(ROOT)} shows it")

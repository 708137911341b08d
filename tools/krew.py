"""Builds the krew archive for this machine: `python -m tools.krew archive [FOLDER]`.

It is a folder with one program, Python and all packages of requirements.lock, which PyInstaller
puts together: it needs nothing of the machine but its C library. PyInstaller cannot build for
another platform, so the release workflow runs this on each of PLATFORMS.

`python -m tools.krew manifest REPOSITORY-URL FOLDER` writes the manifest for krew with the
hashes of the archives in a folder.
"""

import gzip
import hashlib
import io
import os
import platform
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from pathlib import Path
from typing import Any

import yaml

from tests.locking import locked
from tools.image_layer import left_out
from tools.wheel import ROOT, build, committed, copy_source

LOCK = ROOT / "requirements.lock"
PACKER_LOCK = ROOT / "requirements-krew.lock"
"""Of PyInstaller, in an environment with what is shipped and nothing else."""
PLATFORMS = (("linux", "amd64"), ("linux", "arm64"), ("darwin", "amd64"), ("darwin", "arm64"))
"""Not Windows: the server's event loop and its limits on memory are not there."""
PROGRAM = "kubectl-genguard"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
_MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}
# The worker of webhook/cel/evaluator.py is this program again: freeze_support() runs it.
_ENTRY = """\
import multiprocessing

if __name__ == "__main__":
    multiprocessing.freeze_support()
    from webhook.cli import plugin

    plugin()
"""


def here() -> tuple[str, str]:
    """The platform of this machine, as Go and krew name it."""
    machine = platform.machine()
    return sys.platform, _MACHINES.get(machine, machine)


def name_of(system: str, machine: str) -> str:
    """The name of an archive."""
    return f"kubectl-genguard-{system}-{machine}.tar.gz"


def archive() -> Path:
    """The archive of the present sources, built when it is not in the cache."""
    digest = hashlib.sha256(f"{here()} {sys.version}".encode())
    with tempfile.TemporaryDirectory() as work:
        source = copy_source(Path(work) / "source")
        inputs = [Path(__file__), LOCK, PACKER_LOCK, ROOT / "Dockerfile"]
        inputs += sorted(path for path in source.rglob("*") if path.is_file())
        for path in inputs:
            digest.update(path.name.encode() + path.read_bytes())
        found = _cache() / digest.hexdigest()[:16] / name_of(*here())
        if not found.exists():
            with locked(found.parent / ".lock"):
                if not found.exists():  # another process may have built it while this one waited
                    print(f"krew: building {found}", file=sys.stderr, flush=True)
                    pack(_bundle(build(source, Path(work)), Path(work)), found)
    return found


def _cache() -> Path:
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return home / "genguard" / "krew"


def _environment() -> Path:
    """An environment with PyInstaller and the packages that are shipped; one for each lock."""
    digest = hashlib.sha256(sys.version.encode())
    for path in (LOCK, PACKER_LOCK, ROOT / "Dockerfile"):
        digest.update(path.read_bytes())
    found = _cache() / f"environment-{digest.hexdigest()[:16]}"
    with locked(_cache() / ".lock"):
        if not (found / "complete").exists():
            shutil.rmtree(found, ignore_errors=True)
            _run(sys.executable, "-m", "venv", str(found))
            hashed = ("--require-hashes", "--only-binary", ":all:")
            pip = (f"{found}/bin/python", "-m", "pip", "install", "--quiet", "--no-compile")
            # One after the other: each lock pins all that it needs, and both pin a setuptools.
            for lock in (LOCK, PACKER_LOCK):
                _run(*pip, "--disable-pip-version-check", *hashed, "-r", str(lock))
            _leave_out(found)
            (found / "complete").touch()
    return found


def _leave_out(environment: Path) -> None:
    """Removes what the Dockerfile leaves out, too, since genguard never imports it."""
    (packages,) = environment.glob("lib/python3*/site-packages")
    for pattern in left_out():
        for path in packages.glob(pattern):
            path.unlink()


def _bundle(wheel: Path, work: Path) -> Path:
    """Makes the folder with the program, and returns its path."""
    python = f"{_environment()}/bin/python"
    entry, installed = work / "entry.py", work / "installed"
    entry.write_text(_ENTRY)
    pip = (python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    _run(*pip, "--no-deps", "--no-index", "--no-compile", "--target", str(installed), str(wheel))
    collected = [f"--collect-all={name}" for name in ("webhook", "genguard", "certs", "manifests")]
    _run(
        *(python, "-m", "PyInstaller", "--onedir", "--noconfirm", "--log-level=ERROR"),
        *(f"--name={PROGRAM}", f"--paths={installed}", *collected),
        *("--collect-all=cel_expr_python", "--collect-submodules=uvloop"),
        *(f"--distpath={work}/dist", f"--workpath={work}/build", f"--specpath={work}", str(entry)),
        PYTHONHASHSEED="1",
        SOURCE_DATE_EPOCH=str(committed()),
        PYTHONPATH=str(installed),
    )
    made = work / "dist" / PROGRAM
    shutil.copy(ROOT / "LICENSE", made)
    return made


def pack(folder: Path, to: Path) -> None:
    """Packs a folder: names in order, and one time for all, as in tools/wheel.py."""
    to.parent.mkdir(parents=True, exist_ok=True)
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for path in sorted(folder.rglob("*")):
            entry = tar.gettarinfo(path, str(path.relative_to(folder)))
            entry.uid = entry.gid = 0
            entry.uname = entry.gname = ""
            entry.mtime = committed()
            if entry.isfile():
                with path.open("rb") as content:
                    tar.addfile(entry, content)
            else:
                tar.addfile(entry)
    unfinished = to.with_suffix(".unfinished")
    unfinished.write_bytes(gzip.compress(packed.getvalue(), 6, mtime=committed()))
    unfinished.replace(to)  # in one step: nobody ever reads half an archive


def _run(*command: str, **variables: str) -> None:
    done = subprocess.run(
        command, env=os.environ | variables, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        sys.exit(f"krew: {' '.join(command[:4])} exited with {done.returncode}:\n{done.stderr}")


def manifest(repository: str, folder: Path) -> dict[str, Any]:
    """The plugin for krew's index, with the archives of a release; raises FileNotFoundError."""
    version = f"v{PROJECT['version']}"
    return {
        "apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
        "kind": "Plugin",
        "metadata": {"name": "genguard"},
        "spec": {
            "version": version,
            "homepage": repository,
            "shortDescription": PROJECT["description"],
            "description": (
                "Says whether objects are ready and settled and which field blocks, names the\n"
                "webhook or controller that overwrites status, and installs the admission\n"
                "webhook that keeps generation and observedGeneration right.\n"
            ),
            "caveats": (
                "Begin with `kubectl genguard status -A`. It reads only.\n"
                "`kubectl genguard install --audit-only --dry-run` shows what it would add.\n"
            ),
            "platforms": [
                {
                    "selector": {"matchLabels": {"os": system, "arch": machine}},
                    "uri": f"{repository}/releases/download/{version}/{name_of(system, machine)}",
                    "sha256": hashlib.sha256(
                        (folder / name_of(system, machine)).read_bytes()
                    ).hexdigest(),
                    "bin": PROGRAM,
                }
                for system, machine in PLATFORMS
            ],
        },
    }


def main(verb: str = "archive", *words: str) -> None:
    """Builds the archive or writes the manifest, and prints where."""
    if verb == "manifest":
        repository, folder = words[0], Path(words[1])
        to = folder / "genguard.yaml"
        to.write_text(yaml.safe_dump(manifest(repository, folder), sort_keys=False, width=100))
    else:
        to = archive()
        if words:
            Path(words[0]).mkdir(parents=True, exist_ok=True)
            to = Path(shutil.copy(to, words[0]))
    print(to)


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Builds Helm, jsonnet and actionlint once for all: `python -m tools.binaries`.

They are Go tools of go.mod in this folder, which pins their versions; go.sum has their hashes.
"""

import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.controlplane.build import BuildError, pinned
from tests.locking import locked

MODULE = Path(__file__).parent
PACKAGES = {
    "helm": "helm.sh/helm/v3/cmd/helm",
    "jsonnet": "github.com/google/go-jsonnet/cmd/jsonnet",
    "actionlint": "github.com/rhysd/actionlint/cmd/actionlint",
}
_KUBERNETES = "helm.sh/helm/v3/pkg/chartutil.k8sVersion"
"""Helm's Makefile stamps the version of Kubernetes that it assumes where it sees no cluster."""


def _link_flags() -> str:
    major, minor = "1", pinned("k8s.io/client-go", MODULE).split(".")[1]
    return f"-s -w -X {_KUBERNETES}Major={major} -X {_KUBERNETES}Minor={minor}"


def binary(name: str) -> Path:
    """The path of one of PACKAGES, building it when it is not in the cache."""
    path = _cache() / name
    if not path.exists():
        with locked(path.parent / ".lock"):
            if not path.exists():  # another process may have built it while this one waited
                _build(name, path)
    return path


def _cache() -> Path:
    """One folder for each state of go.mod and go.sum, and machine; never rebuilt in place."""
    digest = hashlib.sha256(f"{sys.platform} {platform.machine()}".encode())
    for name in ("go.mod", "go.sum"):
        digest.update((MODULE / name).read_bytes())
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return home / "genguard" / "supply" / digest.hexdigest()[:16]


def _build(name: str, path: Path) -> None:
    go = shutil.which("go")
    if go is None:
        raise BuildError(f"{name} is not built yet and there is no go command on PATH: install Go")
    print(f"supply: building {name} ({PACKAGES[name]})", file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory(dir=path.parent) as work:
        unfinished = str(Path(work) / name)
        done = subprocess.run(
            [
                go,
                "build",
                "-buildvcs=false",
                f"-ldflags={_link_flags()}",
                "-o",
                unfinished,
                PACKAGES[name],
            ],
            cwd=MODULE,
            env=os.environ | {"CGO_ENABLED": "0", "GOWORK": "off"},
            stdout=sys.stderr,
            check=False,
        )
        if done.returncode != 0:
            raise BuildError(f"go build of {PACKAGES[name]} failed; see its output above")
        Path(unfinished).replace(path)  # in one step: nobody ever runs half a binary


def main() -> None:
    """Builds everything and prints the folder."""
    try:
        folders = dict.fromkeys(str(binary(name).parent) for name in PACKAGES)
    except BuildError as error:
        sys.exit(f"supply: {error}")
    print(os.pathsep.join(folders))


if __name__ == "__main__":
    main()

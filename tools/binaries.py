"""Builds Helm, jsonnet and actionlint once for all: `python -m tools.binaries`.

They are Go tools of go.mod in this folder, which pins their versions; go.sum has their hashes.
"""

import hashlib
import os
import platform
import sys
from pathlib import Path

from tests.controlplane.build import BuildError, built, cache_home, pinned

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
    return built(_cache() / name, MODULE, PACKAGES[name], _link_flags(), name)


def _cache() -> Path:
    """One folder for each state of go.mod and go.sum, and machine; never rebuilt in place."""
    digest = hashlib.sha256(f"{sys.platform} {platform.machine()}".encode())
    for name in ("go.mod", "go.sum"):
        digest.update((MODULE / name).read_bytes())
    return cache_home() / "supply" / digest.hexdigest()[:16]


def main() -> None:
    """Builds everything and prints the folder."""
    try:
        folders = dict.fromkeys(str(binary(name).parent) for name in PACKAGES)
    except BuildError as error:
        sys.exit(f"supply: {error}")
    print(os.pathsep.join(folders))


if __name__ == "__main__":
    main()

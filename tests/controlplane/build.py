"""Builds the control plane's binaries once for all: `python -m tests.controlplane.build`.

The versions are those of go.mod. `KUBEBUILDER_ASSETS`, the folder that controller-runtime's
setup-envtest fills, comes first: a binary found there is used as it is, the others are built.
"""

import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

from tests.locking import locked

MODULE = Path(__file__).parent
PACKAGES = {
    "etcd": "go.etcd.io/etcd/server/v3",
    "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
    "kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
    "kube-scheduler": "k8s.io/kubernetes/cmd/kube-scheduler",
    "kubectl": "k8s.io/kubernetes/cmd/kubectl",
    "kwok": "sigs.k8s.io/kwok/cmd/kwok",
}
OTHER_MINOR = "kube-apiserver-"
"""Before the minor, in the name of the API server of another one than go.mod's."""
PROGRAMS = {
    "statusviews": MODULE / "statusviews",
    "healthtools": MODULE / "healthtools",
    "jsonpatches": MODULE / "jsonpatches",
    "gadgets": MODULE / "gadgets",
    "gowebhook": MODULE.parents[1] / "tools" / "bench" / "gowebhook",
    **{
        f"{OTHER_MINOR}{path.name}": path
        for path in sorted((MODULE.parent / "versions").glob("1.*"))
    },
}
"""What is a folder with a Go module of its own, for its libraries pin other versions: programs of
ours, and API servers of other minors."""
_PINNED = re.compile(r"^\t(\S+) v([0-9]+\.[0-9]+\.[0-9]+)(?: |$)", re.MULTILINE)
_MB = 1_000_000
_MOST_LINES = 20
_GO = re.compile(r"^go (\S+)$", re.MULTILINE)


class BuildError(Exception):
    """The binaries cannot be built here; the message says what to do."""


def pinned(module: str, folder: Path = MODULE) -> str:
    """The version of a Go module in a folder's go.mod, without the leading v."""
    for name, version in _PINNED.findall((folder / "go.mod").read_text()):
        if name == module:
            return str(version)
    raise BuildError(f"{folder / 'go.mod'} does not require {module}")


def link_flags(folder: Path = MODULE) -> str:
    """Strips the binaries and stamps versions, which Kubernetes takes from the linker."""
    kubernetes = pinned("k8s.io/kubernetes", folder)
    major, minor, _ = kubernetes.split(".")
    stamped = {
        "k8s.io/component-base/version.gitVersion": f"v{kubernetes}",
        "k8s.io/component-base/version.gitMajor": major,
        "k8s.io/component-base/version.gitMinor": minor,
        "k8s.io/component-base/version.gitTreeState": "clean",
        "k8s.io/component-base/version.gitCommit": f"v{kubernetes}",
    }
    if folder == MODULE:
        etcd = pinned("go.etcd.io/etcd/server/v3")
        stamped["sigs.k8s.io/kwok/pkg/consts.Version"] = pinned("sigs.k8s.io/kwok")
        stamped["go.etcd.io/etcd/api/v3/version.GitSHA"] = f"v{etcd}"
    return "-s -w " + " ".join(f"-X {name}={value}" for name, value in stamped.items())


def cache_home() -> Path:
    """What tests and demo keep on disk outside of the repository; `make clean-all` removes it."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "genguard"


def cache_folder() -> Path:
    """One folder for each combination of sources, flags and machine; never rebuilt in place."""
    digest = hashlib.sha256()
    for part in ((MODULE / "go.mod").read_bytes(), (MODULE / "go.sum").read_bytes()):
        digest.update(part)
    digest.update(f"{link_flags()} {sys.platform} {platform.machine()}".encode())
    return cache_home() / "controlplane" / digest.hexdigest()[:16]


def provided(name: str) -> Path | None:
    """The binary in KUBEBUILDER_ASSETS, if there is one."""
    assets = os.environ.get("KUBEBUILDER_ASSETS")
    path = Path(assets).resolve() / name if assets else None  # servers run in another folder
    return path if path is not None and os.access(path, os.X_OK) else None


def program_folder(name: str) -> Path:
    """The same for what is a module of its own: one folder for each state of its sources."""
    digest = hashlib.sha256(f"{sys.platform} {platform.machine()}".encode())
    for source in sorted(PROGRAMS[name].iterdir()):
        digest.update(source.name.encode() + source.read_bytes())
    return cache_folder().parent.with_name(name) / digest.hexdigest()[:16]


def place(name: str) -> Path:
    """Where one binary of PACKAGES or PROGRAMS is, or will be once it is built."""
    folder = program_folder(name) if name in PROGRAMS else cache_folder()
    return provided(name) or folder / name


def missing(names: Iterable[str]) -> list[str]:
    """Those that have to be built."""
    return [name for name in dict.fromkeys(names) if not place(name).exists()]


def binaries(names: Iterable[str]) -> dict[str, Path]:
    """The path of each. What has to be built is counted to its end: `2/6 kube-apiserver`."""
    wanted = list(names)
    building = missing(wanted)
    counted = {name: f"{at}/{len(building)} {name}" for at, name in enumerate(building, 1)}
    return {name: binary(name, counted.get(name)) for name in wanted}


def binary(name: str, counted: str | None = None) -> Path:
    """The path of one, building it when it is in neither place. `counted`: its name while it is."""
    module = PROGRAMS.get(name, MODULE)
    is_minor = name.startswith(OTHER_MINOR)
    package = PACKAGES["kube-apiserver"] if is_minor else PACKAGES.get(name, ".")
    flags = link_flags(module if is_minor else MODULE)
    return built(place(name), module, package, flags, counted or name)


def built(path: Path, module: Path, package: str, flags: str, counted: str) -> Path:
    """The path, once this package of a Go module has been built there."""
    if not path.exists():
        with locked(path.parent / ".lock"):
            if not path.exists():  # another process may have built it while this one waited
                _build(path, module, package, flags, counted)
    return path


def _build(path: Path, module: Path, package: str, flags: str, counted: str) -> None:
    name, go = path.name, shutil.which("go")
    if go is None:
        raise BuildError(
            f"{name} is not built yet and there is no go command on PATH. Install Go "
            f"{''.join(_GO.findall((MODULE / 'go.mod').read_text()))} or newer "
            f"(https://go.dev/dl), or set KUBEBUILDER_ASSETS to a folder that has {name}."
        )
    started = time.monotonic()
    with tempfile.TemporaryDirectory(dir=path.parent) as work:
        unfinished, said = Path(work) / name, Path(work) / "said"
        with said.open("w") as output:
            building = subprocess.Popen(
                [go, "build", "-buildvcs=false", f"-ldflags={flags}", "-o", unfinished, package],
                cwd=module,
                env=os.environ | {"CGO_ENABLED": "0", "GOWORK": "off"},
                stdout=output,
                stderr=output,
            )
        code = _wait(building, counted, started)
        if code != 0:
            # Of what the compiler says only the end: it begins with each module that it fetches.
            told = "\n".join(said.read_text(errors="replace").splitlines()[-_MOST_LINES:])
            raise BuildError(f"go build of {package} failed in {module}:\n{told}")
        size = unfinished.stat().st_size / _MB
        unfinished.replace(path)  # in one step: nobody ever runs half a binary
    took = time.monotonic() - started
    _say(f"{counted}: built in {took:.0f} s, {size:.0f} MB in {path.parent}")


def _wait(building: "subprocess.Popen[bytes]", what: str, started: float) -> int:
    """Wait for the end of a build; on a terminal a line counts the seconds, elsewhere it stands."""
    is_terminal = sys.stderr.isatty()
    if not is_terminal:
        _say(f"{what}: building")
    try:
        while True:
            if is_terminal:
                seconds = time.monotonic() - started
                print(
                    f"\rcontrolplane: {what}: building, {seconds:.0f} s ", end="", file=sys.stderr
                )
            try:
                return building.wait(1.0)  # meant: it says each second how far it is
            except subprocess.TimeoutExpired:
                continue
    except BaseException:
        building.kill()
        building.wait()
        raise
    finally:
        if is_terminal:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def _say(line: str) -> None:
    print(f"controlplane: {line}", file=sys.stderr, flush=True)


def main() -> None:
    """Builds everything and prints the folder, or the folders in the way of PATH.

    With --own, nothing that only `make test-all` and `make bench` need.
    """
    names = [*PACKAGES, *PROGRAMS]
    if "--own" in sys.argv[1:]:
        names = [one for one in names if not one.startswith((OTHER_MINOR, "gowebhook"))]
    try:
        folders = dict.fromkeys(str(path.parent) for path in binaries(names).values())
    except BuildError as error:
        sys.exit(f"controlplane: {error}")
    print(os.pathsep.join(folders))


if __name__ == "__main__":
    main()

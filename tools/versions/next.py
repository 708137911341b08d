"""The table's next column: what a release of Kubernetes has that the table of kinds has not.

    python -m tools.versions.next 1.38.0 [--write] [--without-server]

Four parts, each of which prints what differs: the files of the release (discovery, schemas,
strategies); its Go types, which say how fields are compared; an API server of it with its defaults,
which fills the next column of the table in docs/concepts.md; the same server with every API on,
which stores an object of each kind. The exit code is 1 if something differs and is not written.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from genguard.generation.table import load_rows, load_table
from genguard.shipped import read_shipped
from tests.controlplane import build
from tests.controlplane.options import Options
from tests.controlplane.plane import ControlPlane
from tests.differential.samples import notation
from tests.versions.facts import FACTS, GUARDED, Server
from tests.versions.probe import every_api, probe
from tools.versions.columns import differences, with_column, written
from tools.versions.published import KUBERNETES, NoReleaseError, Release, find_release
from tools.versions.shapes import SHAPES, merged, missing, shapes_of, written_shapes

ROOT: Final = Path(__file__).parents[2]
KINDS: Final = ROOT / "genguard" / "generation" / "kinds.json"
_FOLDERS: Final = ROOT / "tests" / "versions"
_VERSION: Final = re.compile(r"v?1\.[0-9]{1,3}\.[0-9]{1,3}(-[a-z]+\.[0-9]+)?")
_REPLACED: Final = re.compile(r"^\t?(?:replace )?(k8s\.io/\S+) => \./staging/", re.MULTILINE)


def main(arguments: list[str]) -> int:
    """Compare, and with --write bring kinds.json and go.mod up to the release."""
    parser = argparse.ArgumentParser(prog="python -m tools.versions.next", description=__doc__)
    parser.add_argument("version", help="of the module k8s.io/kubernetes, as 1.38.0")
    parser.add_argument("--write", action="store_true", help="write kinds.json and go.mod")
    parser.add_argument("--without-server", action="store_true", help="compare the files alone")
    given = parser.parse_args(arguments)
    if not _VERSION.fullmatch(given.version):
        parser.error(f"{given.version} is no release of Kubernetes: give one as 1.38.0")
    try:
        release = find_release(given.version)
        differs = [*_files(release, write=given.write)]
        if not given.without_server:
            folder = _FOLDERS / release.minor
            if given.write or not folder.exists():
                pin(release, folder)
            differs += [*_types(release, folder, write=given.write), *_servers(release)]
    except (NoReleaseError, build.BuildError) as error:
        print(f"next: {error}", file=sys.stderr)
        return 2
    print(f"{release.version}: {len(differs)} differences")
    return 1 if differs else 0


def _files(release: Release, *, write: bool) -> Iterator[str]:
    """Print and yield what differs from the files of the release; perhaps write it."""
    print(f"# files of {release.version}: {len(release.kinds)} resources")
    found = [*differences(release, load_table(release.minor))]
    for one in found:
        print(one)
    if write and found:
        rows = with_column(json.loads(KINDS.read_text()), release, found)
        KINDS.write_text(written(rows))
        read_shipped.cache_clear()
        load_rows.cache_clear()
        print(f"written to {KINDS.relative_to(ROOT)}: read what it drafted")
        found = [*differences(release, load_table(release.minor))]
    yield from map(str, found)


def _types(release: Release, folder: Path, *, write: bool) -> Iterator[str]:
    """Print and yield what differs from the Go types of the release; perhaps write it."""
    print(f"# Go types of {release.version}")
    shipped = json.loads(SHAPES.read_text())
    found = shapes_of(load_table(release.minor), folder)
    told = [*missing(shipped, found)]
    for one in told:
        print(one)
    if write and told:
        SHAPES.write_text(written_shapes(merged(shipped, found)))
        print(f"written to {SHAPES.relative_to(ROOT)}")
        return
    yield from told


def _servers(release: Release) -> Iterator[str]:
    """Print and yield what differs on API servers of the release."""
    name = f"{build.OTHER_MINOR}{release.minor}"
    build.PROGRAMS.setdefault(name, _FOLDERS / release.minor)
    with ControlPlane(Options(minor=release.minor, start_timeout=180.0)) as plane:
        served = [one for one in plane.client.discover() if one.persisted]
        yield from _enabled(release, {notation(one) for one in served})
        plane.client.post("/api/v1/namespaces", {"metadata": {"name": GUARDED}})
        server = Server(plane.client, served)
        print(f"# the column {release.minor} of the table in docs/concepts.md, without genguard")
        for fact, ask in FACTS.items():
            print(f"{fact}: {ask(server)}")
    with ControlPlane(every_api(release)) as plane:
        served = [one for one in plane.client.discover() if one.persisted]
        probed = probe(plane.client, served, release.minor)
    print(f"# {probed.writes} writes to {len(probed.kinds)} kinds, every API on")
    told = [
        *probed.disagreements,
        *(f"{one}: no object in tests/differential/samples.yaml" for one in probed.without_sample),
        *(f"{one}: its sample is refused" for one in probed.refused),
    ]
    for one in told:
        print(one)
    yield from told


def _enabled(release: Release, served: set[str]) -> Iterator[str]:
    """Print and yield the kinds that are on by default, and not in the table, or the reverse."""
    table = load_table(release.minor)
    rows = [row for row in table.rows if row.persisted and table.serves(row)]
    told = {row.name for row in rows if table.enables(row)}
    print(f"# {len(served)} kinds are on by default")
    for name in sorted(served ^ told):
        on = "on" if name in served else "off"
        said = f"{name}  enabledByDefault: it is {on} without a flag"
        print(said)
        yield said


def pin(release: Release, folder: Path) -> None:
    """Write the go.mod of an API server of the release: as Kubernetes', its staging published."""
    folder.mkdir(exist_ok=True)
    theirs = release.go_mod
    staged = "v0." + release.version.removeprefix("v").partition(".")[2]
    minor = release.minor.replace(".", "_")
    names = sorted(set(_REPLACED.findall(theirs)))
    lines = [
        f"// kube-apiserver of Kubernetes {release.minor}, pinned by tools/versions/next.py.",
        "// Staging modules are replaced as tests/controlplane/go.mod does it, and godebug is what",
        "// Kubernetes itself is built with.",
        f"module genguard.io/tests/versions/v{minor}",
        "",
        *re.findall(r"^go .*$", theirs, re.MULTILINE)[:1],
        "",
        *re.findall(r"^godebug default=.*$", theirs, re.MULTILINE)[:1],
        "",
        f"tool {build.PACKAGES['kube-apiserver']}",
        "",
        f"require (\n\t{KUBERNETES} {release.version} // indirect\n)",
        "",
        "replace (",
        *(f"\t{name} => {name} {staged}" for name in names),
        ")",
    ]
    (folder / "go.mod").write_text("\n".join(lines) + "\n")
    _resolve(build.PACKAGES["kube-apiserver"], folder)


def _resolve(package: str, folder: Path) -> None:
    """Let the go command add the modules that a package needs, and their checksums."""
    go = shutil.which("go")
    if go is None:
        raise build.BuildError("there is no go command on PATH")
    done = subprocess.run(
        [go, "list", "-mod=mod", "-deps", package],
        cwd=folder,
        env=os.environ | {"GOWORK": "off"},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        last = done.stderr.strip().splitlines()[-1:]
        raise build.BuildError(f"go list in {folder}: {''.join(last)}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

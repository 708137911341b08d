"""Plays docker and kind for a script: what they are asked is written down, and a cluster is there.

The cluster is the control plane of the test. `docker run IMAGE VERB ...` runs the verb of genguard
for which the image was built, with the files that are mounted.
"""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.controlplane.plane import ControlPlane
from tests.e2e.genguard import ROOT

_HEAD = f"#!{sys.executable}\nimport json, os, pathlib, subprocess, sys\nargs = sys.argv[1:]\n"
_TOLD = """
folder = pathlib.Path(os.environ["PRETENDED"])
with (folder / "calls").open("a") as calls:
    calls.write(json.dumps([NAME, *args]) + "\\n")
fails = folder / "fails"
if fails.exists() and " ".join([NAME, *args]).startswith(fails.read_text()):
    sys.exit("told why")
"""
_KIND = """
cluster = folder / "cluster"
match args:
    case ["get", "clusters"]:
        print(cluster.read_text() if cluster.exists() else "", end="")
    case ["create", "cluster", *_]:
        cluster.write_text("genguard\\n")
    case ["delete", "cluster", *_]:
        cluster.unlink()
    case ["get", "kubeconfig", *_]:
        print(pathlib.Path(os.environ["PLANE"]).read_text())
"""
_DOCKER = """
match args:
    case ["build", "--iidfile", file, *_]:
        print("a line of the build")
        pathlib.Path(file).write_text("sha256:0123456789abcdef")
    case ["image", "ls", *_]:
        print("0123456789ab\\n0123456789ab")
    case ["run", *flags]:
        source, target, _ = flags[flags.index("--volume") + 1].split(":")
        assert os.stat(source).st_mode & 0o077 == 0
        verb = flags[[n for n, one in enumerate(flags) if one.startswith("genguard:kind-")][0] + 1:]
        verb = [source if one == target else one for one in verb]
        if (played := folder / f"played-{verb[0]}").exists():
            code, _, text = played.read_text().partition(" ")
            print(text)
            sys.exit(int(code))
        sys.exit(subprocess.run([sys.executable, "-m", "webhook", *verb]).returncode)
"""


class Pretended:
    """A PATH on which docker and kind are these."""

    def __init__(self, plane: ControlPlane, folder: Path) -> None:
        self._folder = folder
        tools = folder / "bin"
        tools.mkdir()
        for name, what in (("kind", _KIND), ("docker", _DOCKER)):
            path = tools / name
            path.write_text(f"{_HEAD}NAME = {name!r}\n{_TOLD}{what}")
            path.chmod(0o755)
        self.environment: Mapping[str, str] = {
            "PATH": os.pathsep.join((str(tools), "/usr/bin", "/bin")),
            "PYTHONPATH": os.pathsep.join((str(ROOT), *filter(None, sys.path))),
            "HOME": str(folder),
            "PRETENDED": str(folder),
            "PLANE": str(plane.kubeconfig),
        }

    def without(self, name: str) -> None:
        """As on a machine where it is not installed."""
        (self._folder / "bin" / name).unlink()

    def fail(self, call: str) -> None:
        """Calls that begin so end with an error."""
        (self._folder / "fails").write_text(call)

    def play(self, verb: str, code: int, text: str = "") -> None:
        """A verb of genguard prints this text, and ends with this code; it is not run."""
        (self._folder / f"played-{verb}").write_text(f"{code} {text}")

    def calls(self) -> list[list[str]]:
        """What was asked since this was last asked."""
        path = self._folder / "calls"
        if not path.exists():
            return []
        found = [json.loads(line) for line in path.read_text().splitlines()]
        path.unlink()
        return found

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """One run of the script, from a folder that is not the repository's."""
        return subprocess.run(
            [str(ROOT / "manifests" / "kind" / "kind.sh"), *arguments],
            cwd=self._folder,
            env=dict(self.environment),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )

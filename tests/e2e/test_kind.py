"""The script for kind asks docker and kind for the right things; both are played here.

`tests/kind` runs it for real, where there are docker and kind.
"""

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.e2e.genguard import ROOT

FOLDER = ROOT / "manifests" / "kind"
PLAYED = Path(__file__).with_name("docker_and_kind.sh").read_text()


class Tools:
    """A PATH on which docker and kind are played.

    built   what `docker build` ends with
    doctor  what `genguard doctor` prints
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        for name in ("docker", "kind"):
            (folder / name).write_text(PLAYED)
            (folder / name).chmod(0o755)
        (folder / "cluster").touch()
        self.say()

    def say(self, built: int = 0, doctor: str = "ok   pods  well\n") -> None:
        (self._folder / "built").write_text(f"{built}")
        (self._folder / "doctor").write_text(doctor)

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """One run of the script, from a folder that is not the repository's."""
        (self._folder / "calls").write_text("")
        path = os.pathsep.join((str(self._folder), "/usr/bin", "/bin"))
        return subprocess.run(
            [str(FOLDER / "kind.sh"), *arguments],
            cwd=self._folder,
            env={"PATH": path, "HOME": str(self._folder)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )

    def calls(self) -> list[str]:
        """What the last run asked, the first three words of each."""
        lines = (self._folder / "calls").read_text().splitlines()
        return [" ".join(line.split()[:3]) for line in lines]


@pytest.fixture
def tools(tmp_path: Path) -> Tools:
    return Tools(tmp_path)


def test_up_makes_a_cluster_and_installs_into_it_and_down_takes_it_away(tools: Tools) -> None:
    up = tools.run("up", "--audit-only")
    assert up.returncode == 0, up.stderr
    first = ["docker info", "kind get clusters", "kind create cluster", "docker build --iidfile"]
    then = ["docker tag sha256:0123456789abcdef", "kind load docker-image", "kind get kubeconfig"]
    assert tools.calls() == [*first, *then, "docker run --rm", "docker run --rm"]
    assert "kubeconfig: 600\n" in up.stdout, "nobody else reads it"
    assert "why" not in up.stdout + up.stderr, "nobody reads what a build prints that succeeds"

    again = tools.run("up", "--audit-only")
    assert again.returncode == 0, again.stderr
    assert "kind create cluster" not in tools.calls()

    assert tools.run("down").returncode == 0
    taken = ["kind delete cluster", "docker image ls", "docker image rm"]
    assert tools.calls() == ["docker info", "kind get clusters", *taken]
    assert tools.run("down").returncode == 0, "what is gone may be taken away again"


def test_where_a_step_fails_the_next_is_not_tried(tools: Tools) -> None:
    tools.say(built=1)
    failed = tools.run("up")
    assert failed.returncode != 0
    assert failed.stderr.endswith("why\nkind.sh: docker build failed: its output is above\n")
    assert tools.calls()[-1] == "docker build --iidfile"


@pytest.mark.parametrize(
    ("said", "code"),
    [("warn order  bad  — do this\n", 0), ("fail order  bad  — do this\n", 1), ("", 0)],
)
def test_what_doctor_says_stands_at_the_end_and_only_a_failure_is_one(
    tools: Tools, said: str, code: int
) -> None:
    tools.say(doctor=f"ok   pods  well\n{said}")
    up = tools.run("up")
    assert up.returncode == code
    _, _, end = up.stderr.partition("== 4/4 genguard doctor\n")
    told = f"== genguard is installed, but doctor is not content:\n{said}" if said else ""
    assert end == told + ("== try it: manifests/kind/README.md\n" if code == 0 else "")


def test_where_doctor_cannot_be_run_up_fails(tools: Tools) -> None:
    tools.say(doctor="")
    assert tools.run("up").returncode == 1


def test_the_readme_shows_the_script_s_own_verbs() -> None:
    readme = (FOLDER / "README.md").read_text()
    shown = re.findall(r"^manifests/kind/kind\.sh (\w+)", readme, re.MULTILINE)
    assert set(shown) == {"up", "down"}

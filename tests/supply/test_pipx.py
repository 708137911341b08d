"""README's first line, in a clean clone: `pipx install .` by a user who has nothing else.

No variable of this shell, an empty home, and no package of this environment. pipx itself and the
dependencies come from the index of packages; genguard comes from the clone alone.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tools.published import current
from tools.release import bare
from tools.wheel import ROOT

_SECONDS = 900.0
BROKEN = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web", "generation": 4},
    "spec": {"selector": {}, "template": {}},
    "status": {"observedGeneration": 3},
}


def run(*command: str, home: Path, folder: Path, stdin: str = "") -> tuple[int, str]:
    """Runs a program of the user's PATH, where pipx puts its links."""
    environment = bare(home)
    environment["PATH"] = f"{home}/.local/bin:{home}/pipx/bin:{environment['PATH']}"
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment,
        input=stdin,
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home in which `pipx install .` has been typed in a clone, which then went away."""
    home = tmp_path_factory.mktemp("home")
    clone = tmp_path_factory.mktemp("clone") / "genguard"
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
    subprocess.run([sys.executable, "-m", "venv", f"{home}/pipx"], check=True)
    install = (f"{home}/pipx/bin/pip", "install", "--quiet", "pipx")
    assert run(*install, home=home, folder=home) == (0, "")
    code, out = run("pipx", "install", ".", home=home, folder=clone)
    assert code == 0, out
    left = ["git", "status", "--porcelain"]
    assert subprocess.run(left, cwd=clone, capture_output=True, check=True).stdout == b""
    clone.rename(clone.with_name("gone"))
    return home


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("genguard", "version"), 0, f"genguard {current().version}, "),
        (("kubectl-genguard", "version"), 0, f"genguard {current().version}, "),
        (("genguard", "explain", "deployments"), 0, "deployments"),
        (("genguard", "install", "--audit-only", "-o", "yaml"), 0, current().image),
        (("genguard", "status", "-f", "-", "-o", "json"), 0, '"ready":false'),
    ],
)
def test_the_command_works(home: Path, words: tuple[str, ...], code: int, said: str) -> None:
    assert (ended := run(*words, home=home, folder=home, stdin=json.dumps(BROKEN)))[0] == code
    assert said in ended[1]


def test_it_is_one_package_and_the_library_is_in_it(home: Path) -> None:
    """An index need not have `genguard`: the wheel of the server holds the library."""
    code, out = run("pipx", "runpip", "genguard-webhook", "list", home=home, folder=home)
    assert code == 0, out
    names = [line.split()[0] for line in out.splitlines() if line]
    assert "genguard-webhook" in names
    assert "genguard" not in names


def test_uninstalled_nothing_of_it_is_left_on_path(home: Path) -> None:
    code, out = run("pipx", "uninstall", "genguard-webhook", home=home, folder=home)
    assert code == 0, out
    assert list((home / ".local" / "bin").iterdir()) == []

"""The library alone: small, and undisturbed by the user's modules of the server's names."""

import subprocess
import sys
from pathlib import Path

import pytest

from tools.locked import locked
from tools.wheel import LIBRARY, build, copy_source

MOST_PACKAGES = 12
MOST_MEBIBYTES = 60
_USE = """
import certs, manifests, webhook  # the user's own
from genguard import evaluate, lint, predict
assert predict("CREATE", "pods", {"spec": {}}).generation == 1
assert evaluate({"kind": "Pod"}) is not None
assert lint([]) == ()
from genguard.testing import FakeApiServer
with FakeApiServer() as server:
    assert server.list("pods") == []
"""


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library's wheel and what it depends on, in the versions of the lock."""
    folder = tmp_path_factory.mktemp("library")
    wheel = build(copy_source(folder / "source") / LIBRARY, folder)
    constraints = folder / "constraints.txt"
    constraints.write_text("".join(f"{one.name}=={one.version}\n" for one in locked()))
    made = folder / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(made)], check=True)
    subprocess.run(
        [
            *(sys.executable, "-m", "pip", "--python", f"{made}/bin/python", "install", "--quiet"),
            *("--no-compile", "--constraint", str(constraints), str(wheel)),
        ],
        check=True,
    )
    return made


def test_it_is_small(environment: Path) -> None:
    (packages,) = environment.glob("lib/python3*/site-packages")
    names = [path.name for path in packages.glob("*.dist-info")]
    size = sum(path.stat().st_size for path in packages.rglob("*") if path.is_file()) / 2**20
    print(f"{len(names)} packages, {size:.0f} MiB")
    assert len(names) <= MOST_PACKAGES, names
    assert size <= MOST_MEBIBYTES


def test_modules_of_the_user_that_are_named_as_the_servers_do_not_matter(
    environment: Path, tmp_path: Path
) -> None:
    (tmp_path / "webhook.py").write_text("")
    (tmp_path / "manifests.py").write_text("")
    (tmp_path / "certs").mkdir()
    (tmp_path / "certs" / "__init__.py").write_text("")
    (tmp_path / "use.py").write_text(_USE)
    subprocess.run([f"{environment}/bin/python", "use.py"], cwd=tmp_path, check=True)

"""The package genguard: what it offers, how it is typed, what it costs who does not use it."""

import doctest
import json
import subprocess
import sys
from pathlib import Path

import pytest

import genguard
from genguard import library, testing
from tests.architecture.source import ROOT
from tests.library.builtin_kinds import OWNED, TABLE, atomic_table, make_table, sources

_USE = """
from datetime import UTC, datetime
from genguard import Prediction, StatusView, evaluate, lint, predict
from genguard.testing import FakeApiServer, assert_converges, assert_no_loop

prediction: Prediction = predict("CREATE", "pods", {"spec": {}})
view: StatusView = evaluate({"kind": "Pod"}, now=datetime.now(UTC))
names: list[str] = [one.webhook for one in lint([{}])]
with FakeApiServer({"kind": "A"}, "crds.yaml", server_version="1.34") as server:
    made: dict[str, object] = server.create({})
    assert_converges(server, "pods", "one", step=lambda: None)
    assert_no_loop(server, at_least="info")
"""


@pytest.mark.parametrize("package", [genguard, testing])
def test_every_name_that_it_offers_is_there(package):
    assert {name: getattr(package, name) for name in package.__all__}
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        package.nothing  # noqa: B018


def test_the_examples_of_the_docstrings_are_true():
    assert doctest.testmod(library).failed == 0


def test_pytest_loads_the_plugin_without_the_server():
    """Every run of pytest in an environment with genguard pays for what is imported here."""
    code = "import genguard.testing.plugin, sys; print(*sys.modules)"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert not {"aiohttp", "webhook", "msgspec", "yaml"} & set(done.stdout.split())


def test_the_fixture_serves_the_definitions_of_the_setting(tmp_path: Path):
    (tmp_path / "crd.yaml").write_text((ROOT / "examples/controller/crd.yaml").read_text())
    (tmp_path / "pytest.ini").write_text("[pytest]\nfake_api_server_crds = crd.yaml\n")
    (tmp_path / "test_it.py").write_text(
        "def test_it(fake_api_server):\n"
        "    assert fake_api_server.list('backups.example.org') == []\n"
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "genguard.testing.plugin"]
    done = subprocess.run(
        [*command, f"--rootdir={tmp_path}", "-c", str(tmp_path / "pytest.ini"), str(tmp_path)],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "1 passed" in done.stdout, done.stdout


@pytest.mark.slow
def test_what_uses_it_is_checked_by_a_strict_mypy(tmp_path: Path):
    (tmp_path / "use.py").write_text(_USE)
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", str(tmp_path / "use.py")]
    command += ["--follow-imports=silent", "--ignore-missing-imports"]
    done = subprocess.run(
        [*command, f"--cache-dir={tmp_path}"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout


def test_the_table_of_built_in_kinds_is_that_of_the_source_of_kubernetes():

    assert json.loads(TABLE.read_text()) == make_table(sources())
    assert json.loads(OWNED.read_text()) == atomic_table()

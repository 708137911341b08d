"""docs/testing.md: what stands there is what runs."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture.source import ROOT

PAGE = (ROOT / "docs" / "testing.md").read_text()
_NAMED = re.compile(r'^```\w+ title="(\S+)"\n(.*?)^```$', re.DOTALL | re.MULTILINE)
_CODE = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
EXAMPLE = ROOT / "examples" / "controller"
DEFINITION = (EXAMPLE / "crd.yaml").read_text()


def test_the_example_is_the_one_that_pytest_runs():
    shown = dict(_NAMED.findall(PAGE))
    assert shown == {name: (EXAMPLE / name).read_text() for name in shown}
    assert shown.keys() == {"controller.py", "test_controller.py"}


@pytest.mark.slow
def test_the_page_runs_when_it_is_copied_into_an_empty_folder(tmp_path: Path):
    for name, text in (("crd.yaml", DEFINITION), *_NAMED.findall(PAGE)):
        (tmp_path / name).write_text(text)
    plugin = ["-p", "genguard.testing.plugin"]  # of this folder, where another one is installed
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *plugin],
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "4 passed" in done.stdout


@pytest.mark.parametrize("code", _CODE.findall(PAGE))
def test_a_block_of_code_runs(code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "crd.yaml").write_text(DEFINITION)
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "docs/testing.md", "exec"), {})  # noqa: S102 - the page is our own

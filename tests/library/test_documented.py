"""docs/testing.md: what stands there is what runs."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture.source import ROOT

PAGE = (ROOT / "docs" / "testing.md").read_text()
CODE = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
EXAMPLE = ROOT / "examples" / "controller"


@pytest.mark.slow
def test_the_example_runs_in_a_folder_of_its_own(tmp_path: Path):
    shutil.copytree(EXAMPLE, tmp_path, dirs_exist_ok=True)
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
    assert "5 passed" in done.stdout


@pytest.mark.parametrize("code", CODE.findall(PAGE))
def test_a_block_of_code_runs(code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    shutil.copy(EXAMPLE / "crd.yaml", tmp_path)
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "docs/testing.md", "exec"), {})  # noqa: S102 - the page is our own

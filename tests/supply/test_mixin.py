"""The jsonnet mixin is the alerts and the dashboard of manifests/monitoring, and nothing else."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tools.binaries import binary
from tools.wheel import ROOT

MONITORING = ROOT / "manifests" / "monitoring"


def evaluated(expression: str, folder: Path) -> Any:
    """Evaluate an expression in which `mixin` is the mixin, as it is vendored by its path."""
    whole = f"local mixin = import 'manifests/monitoring/mixin.libsonnet'; {expression}"
    command = [binary("jsonnet"), "--jpath", folder, "--exec", whole]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def vendored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Only this folder, as jsonnet-bundler leaves it: an import from elsewhere would fail."""
    folder = tmp_path_factory.mktemp("vendor")
    (folder / "manifests").mkdir()
    (folder / "manifests" / "monitoring").symlink_to(MONITORING)
    return folder


def test_the_alerts_are_those_of_the_file(vendored: Path) -> None:
    wanted = yaml.safe_load((MONITORING / "rules.yaml").read_text())["spec"]["groups"]
    assert evaluated("mixin.prometheusAlerts.groups", vendored) == wanted


def test_the_runbooks_of_the_alerts_may_be_elsewhere(vendored: Path) -> None:
    given = "{ _config+:: { runbookUrl: 'https://wiki.example.org' } }"
    (down, *_) = evaluated(f"(mixin + {given}).prometheusAlerts.groups[1].rules", vendored)
    assert down["annotations"]["runbook_url"] == "https://wiki.example.org/GenguardDown"


def test_the_dashboard_is_that_of_the_file(vendored: Path) -> None:
    wanted = json.loads((MONITORING / "grafana" / "genguard.json").read_text())
    assert evaluated("mixin.grafanaDashboards", vendored) == {"genguard.json": wanted}


def test_it_can_be_added_to_other_mixins(vendored: Path) -> None:
    other = "{ prometheusAlerts+:: { groups+: [{ name: 'other', rules: [] }] } }"
    names = evaluated(f"[one.name for one in ({other} + mixin).prometheusAlerts.groups]", vendored)
    assert names[0] == "other"
    assert len(names) > 1


def test_the_bundler_reads_what_it_depends_on() -> None:
    described = json.loads((MONITORING / "jsonnetfile.json").read_text())
    assert described == {"version": 1, "dependencies": [], "legacyImports": False}

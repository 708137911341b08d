"""The alerts of manifests/monitoring/rules.yaml, as Prometheus takes them."""

from pathlib import Path
from typing import Any

import yaml

from tests.e2e.genguard import ROOT

MONITORING = ROOT / "manifests" / "monitoring"
RUNBOOKS = MONITORING / "runbooks"
RUNBOOK_URL = "http://localhost:8080/runbooks/"
BY_DETECTOR = "{{ $labels.detector }}"
"""The page that a runbook_url with this in it means: the detector's own."""


def groups() -> list[dict[str, Any]]:
    """`spec.groups` of the PrometheusRule."""
    document = yaml.load((MONITORING / "rules.yaml").read_text(), yaml.CSafeLoader)
    found: list[dict[str, Any]] = document["spec"]["groups"]
    return found


def alerts() -> list[dict[str, Any]]:
    """Every rule; all of them are alerts."""
    return [rule for group in groups() for rule in group["rules"]]


def write_rules(folder: Path) -> Path:
    """A file of rules as `rule_files` names it."""
    path = folder / "genguard.rules.yaml"
    path.write_text(yaml.safe_dump({"groups": groups()}, sort_keys=False))
    return path

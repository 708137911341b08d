"""Every metric is declared once; dashboards, alerts, documents and code name only those."""

import re
from pathlib import Path

from tools import tables
from webhook.telemetry.metrics import declared

ROOT = Path(__file__).parents[3]
EVERY = declared()
FILES = [
    # CONTRIBUTING.md shows how to add a metric that is not there.
    *(page for page in ROOT.glob("*.md") if page.name != "CONTRIBUTING.md"),
    *ROOT.glob("docs/*.md"),
    *ROOT.glob("manifests/**/*.md"),
    *ROOT.glob("manifests/**/*.yaml"),
    *ROOT.glob("manifests/**/*.json"),
    *ROOT.glob("webhook/**/*.py"),
]
NO_METRICS = {"genguard_detection", "genguard_webhook"}
"""Words that look like metrics: a prefix that a runbook searches for, and the distribution."""
_SUFFIXES = ("", "_total", "_bucket", "_sum", "_count")
_DECLARED = {f"{name.removesuffix('_total')}{suffix}" for name in EVERY for suffix in _SUFFIXES}


def named(text: str) -> set[str]:
    return set(re.findall(r"(?<![\w./-])genguard_[a-z][a-z_]*[a-z]", text)) - NO_METRICS


def test_a_metric_has_a_name_and_a_help_by_which_it_is_understood(subtests):
    for name, metric in EVERY.items():
        with subtests.test(name):
            assert name.startswith(("genguard_", "kube_"))
            assert metric.help.endswith(".")


def test_every_metric_is_documented():
    """`python -m tools.tables` writes the page."""
    assert tables.METRICS.read_text() == tables.wanted_metrics()


def test_a_file_names_only_metrics_that_are_declared(subtests):
    for path in FILES:
        with subtests.test(str(path.relative_to(ROOT))):
            text = re.sub(r"### Removed\n.*?(?=\n##|\Z)", "", path.read_text(), flags=re.DOTALL)
            assert named(text) <= _DECLARED, "declare it, or correct the name"


def test_labels_beside_a_name_are_those_of_its_declaration(subtests):
    for path in FILES:
        found = re.findall(r"(genguard_[a-z_]+)\{([a-z_,]+)\}", path.read_text())
        for name, inside in found if path.suffix == ".md" else ():
            with subtests.test(str(path.relative_to(ROOT)), metric=name):
                assert set(inside.split(",")) <= set(EVERY[name].labels)

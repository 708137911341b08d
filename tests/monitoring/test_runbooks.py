"""One page for each detector and alert; every page is reached, and names nothing that is not."""

import re
from collections.abc import Callable
from pathlib import Path

import click
import pytest

from genguard.detection.questions import FINDINGS
from tests.monitoring.rules import MONITORING, RUNBOOKS, alerts
from tools import tables
from webhook.cli import main
from webhook.server.settings import Settings

PAGES = sorted(RUNBOOKS.iterdir())
DETECTORS = {*FINDINGS}
ALERTS = {rule["alert"] for rule in alerts()} - {"GenguardLoop"}


def test_every_detector_and_every_alert_has_a_page_and_there_is_no_other() -> None:
    assert {page.name for page in PAGES} == {f"{name}.md" for name in DETECTORS | ALERTS}


def test_the_table_of_findings_is_what_questions_declare() -> None:
    """`python -m tools.tables` writes the table."""
    assert tables.written_findings() == tables.wanted_findings()


def test_prometheus_and_the_server_link_the_same_pages() -> None:
    for rule in alerts():
        assert rule["annotations"]["runbook_url"].startswith(f"{Settings().runbooks}/")


def is_short_and_answers_the_same_questions(page: Path) -> None:
    text = page.read_text()
    lines = text.splitlines()
    assert lines[0] == f"# {page.stem}"
    assert len(lines) < 60
    headings = re.findall(r"^## (.*)$", text, re.MULTILINE)
    who = "Who does it" if page.stem in DETECTORS else "Who"
    assert headings == ["Confirm", who, "At 3 a.m.", "How it resolves"]
    assert "```sh" in text


def links_what_is_there(page: Path) -> None:
    text = page.read_text()
    for name in re.findall(r"\]\(([^)]*)\)", text):
        assert (RUNBOOKS / name.partition("#")[0]).exists(), name
    for path in re.findall(r"manifests/[a-z][a-z/.-]*[a-z]", text):
        if not path.endswith("ca.key"):  # of `serve --cert-dir`, in no repository
            assert (MONITORING.parents[1] / path).exists(), path


def shows_its_own_findings(page: Path) -> None:
    if page.stem in DETECTORS:
        assert f'select(.detector == "{page.stem}" and .state == "open")' in page.read_text()


@pytest.mark.parametrize(
    "law", [is_short_and_answers_the_same_questions, links_what_is_there, shows_its_own_findings]
)
def test_a_page(law: Callable[[Path], None], subtests: pytest.Subtests) -> None:
    for page in PAGES:
        with subtests.test(page.name):
            law(page)


def test_a_page_names_only_verbs_that_are(subtests: pytest.Subtests) -> None:
    """Its metrics are looked at in tests/unit/telemetry/test_declarations.py."""
    verbs = set(main.list_commands(click.Context(main)))
    for page in PAGES:
        text = page.read_text()
        with subtests.test(page.name):
            assert set(re.findall(r"`genguard ([a-z]+)", text)) <= verbs


def test_the_page_about_findings_links_the_runbook_of_every_detector() -> None:
    text = (MONITORING.parents[1] / "docs" / "findings.md").read_text()
    linked = re.findall(
        r"^\| \[`([a-z-]+)`\]\(\.\./manifests/monitoring/runbooks/", text, re.MULTILINE
    )
    assert sorted(linked) == sorted(DETECTORS)


def test_the_readme_names_every_alert_and_file() -> None:
    text = (MONITORING / "README.md").read_text()
    for name in {rule["alert"] for rule in alerts()}:
        assert f"| {name} |" in text
    for file in MONITORING.glob("*.yaml"):
        if file.name != "kustomization.yaml":
            assert f"`{file.name}`" in text

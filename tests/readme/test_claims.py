"""What README and the page about compatibility claim is what the code knows."""

import re
import tomllib
from dataclasses import replace

import pytest

from genguard.generation.table import known_versions
from tests.e2e.genguard import ROOT
from tests.unit.doctor.healthy import healthy
from tests.versions.facts import FACTS
from webhook.doctor.checks import api_server
from webhook.doctor.facts import Level

README = (ROOT / "README.md").read_text()
PAGE = (ROOT / "docs" / "compatibility.md").read_text()
CONCEPTS = (ROOT / "docs" / "concepts.md").read_text()
MOST_PICTURE_BYTES = 200_000


def test_the_readme_is_read_in_a_few_minutes_and_shows_what_it_is_about() -> None:
    assert len(README.encode()) <= 10_240
    pictures = re.findall(r"!\[[^\]]+\]\((\S+)\)", README)
    assert pictures == ["docs/dashboard.png", "tools/demo/demo.svg"]
    for picture in pictures:
        assert (ROOT / picture).stat().st_size < MOST_PICTURE_BYTES
    headings = re.findall(r"^## (.+)$", README, re.MULTILINE)
    assert headings[:3] == ["Three more fights", "Install", "How it works"]
    scan = (ROOT / "tests/unit/converge/scan.txt").read_text().splitlines()
    assert " ".join(scan[0].split()) in " ".join(README.split())


@pytest.mark.parametrize("text", [README, PAGE], ids=["README", "compatibility"])
def test_the_versions_that_are_predicted_are_those_of_the_table(text: str) -> None:
    oldest, newest = known_versions()
    assert f"{oldest} to {newest}" in text


def test_every_version_of_the_table_of_differences_is_said_to_be_tested() -> None:
    (head,) = re.findall(r"^\| Kubernetes \| (1\.30 .*) \|$", CONCEPTS, re.MULTILINE)
    assert all(f"| {fact} |" in CONCEPTS for fact in FACTS)
    rows = re.findall(r"^\| ((?:1\.\d+(?:, )?)+) \|", PAGE, re.MULTILINE)
    told = {version for row in rows for version in row.split(", ")}
    assert set(head.split(" | ")) <= told
    oldest, newest = (int(one.partition(".")[2]) for one in known_versions())
    assert told == {f"1.{minor}" for minor in range(oldest, newest + 1)}


def test_python_and_the_oldest_cluster_are_those_of_the_code() -> None:
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["requires-python"]
    assert f"| Python | {wanted.removeprefix('>=')} or newer" in PAGE
    (oldest,) = re.findall(r"`genguard install` and the registrations \| (\S+) or newer", PAGE)
    assert f"Kubernetes {oldest} or newer" in README
    before = f"1.{int(oldest.partition('.')[2]) - 1}"
    levels = {}
    for version in (before, oldest):
        (result,) = api_server.results(replace(healthy(), version=f"v{version}.0"))
        levels[version] = result.level
    assert levels == {before: Level.FAIL, oldest: Level.OK}


def test_the_readme_claims_no_figure_of_the_bench_which_would_grow_old_there() -> None:
    assert not re.search(r"\d[\d.,]* ?(µs|us|ms|MB|MiB|writes/s|req/s)\b", README)


def test_each_figure_of_the_page_for_people_who_decide_stands_in_its_source() -> None:
    page = (ROOT / "docs" / "decide.md").read_text()
    table = page.partition("## What it costs")[2].partition("\n\nNo database")[0]
    rows = re.findall(r"^\| [^|]+ \| ([^|]*`[^|]*) \| \[[^\]]*\]\(([^)#]+)", table, re.MULTILINE)
    assert len(rows) == 4
    for figures, source in rows:
        text = (ROOT / "docs" / source).read_text()
        for figure in re.findall(r"`([^`]+)`", figures):
            assert re.search(rf"(?<![\d.]){re.escape(figure)}(?![\d.])", text), (figure, source)

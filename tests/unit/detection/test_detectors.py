"""Each detector alone, on the writes of one object: tests/cases/detectors."""

from typing import Any

import pytest

from genguard.detection.finding import Finding
from genguard.detection.questions import FINDINGS
from tests.cases_loader import FOLDER, Case, load, table
from tests.unit.detection.story import Story

KEYS = ("resource", "object", "steps", "finds")
FILES = sorted(path.stem for path in (FOLDER / "detectors").iterdir())
ROWS = [
    pytest.param(name, case, id=case.name)
    for name in FILES
    for case in load(f"detectors/{name}.yaml", *KEYS)
]


def told(found: Finding, keys: set[str]) -> dict[str, Any]:
    """What people see of a finding; the last of the evidence without time and user."""
    said = {
        "detector": found.detector,
        "count": found.count,
        "severity": found.severity.value,
        "paths": list(found.paths),
        "message": found.message,
        "actors": [f"{one.type} {one.name} {one.confidence}" for one in found.actors],
        "evidence": {k: v for k, v in found.evidence[-1].items() if k not in {"time", "user"}},
    }
    return {key: value for key, value in said.items() if key in keys}


@pytest.mark.parametrize(("name", "case"), ROWS)
def test_a_detector_finds_what_its_table_says_and_nothing_else(name: str, case: Case):
    assert name in FINDINGS, f"no question of genguard/detection/questions finds {name}"
    resource, found = case.get("resource", "deployments"), case.get("object", {})
    story = Story(name, resource=resource, found=found)
    for step in case["steps"]:
        story.play(step)
    expected = case.get("finds", [])
    keys = set().union(*expected)
    assert [told(found, keys) for found in story.end()] == expected, case.because


@table("at_rest.yaml", *KEYS)
def test_who_writes_again_and_again_is_found_where_all_should_be_at_rest(case: Case):
    story = Story(resource=case.get("resource", "deployments"), found=case["object"], at_rest=True)
    for step in case["steps"]:
        story.play(step)
    expected = case.get("finds", [])
    keys = set().union(*expected)
    assert [told(found, keys) for found in story.end()] == expected, case.because


def test_every_detector_has_a_case_that_finds_and_one_that_must_not():
    assert set(FILES) == set(FINDINGS)
    for name in FILES:
        found = {bool(case.get("finds")) for case in load(f"detectors/{name}.yaml", *KEYS)}
        assert found == {True, False}

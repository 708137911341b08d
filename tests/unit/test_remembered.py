"""The table of what is remembered, in tests/README.md: as in the code, and within the pod."""

import importlib
import re
from typing import Any

import pytest
import yaml

from genguard.admission.review import Phase
from genguard.review import review
from genguard.review_setup import ReviewOptions, ReviewSetup
from tests.architecture.source import ROOT
from tests.contract.hoard import ATTACKS

TEXT = (ROOT / "tests" / "README.md").read_text()
SECTION = TEXT.partition("# What is remembered")[2].partition("\n# ")[0]
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in SECTION.splitlines()
    if line.startswith("| ") and not line.startswith("| structure")
]
LIMIT = ROOT / "manifests" / "base" / "server" / "deployment.yaml"
MIB = 1024 * 1024
IN_BYTES = 1_000_000
"""A constant of more is a number of bytes, of less one of entries."""


def number(text: str) -> int:
    return int(text.replace(",", ""))


def constant(place: str) -> int:
    module, _, name = place.strip("`").partition(":")
    found: Any = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found() if isinstance(found, type) else found, part)
    return int(found)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0][:40])
def test_each_bound_is_that_of_the_code(row: list[str]) -> None:
    what, entries, mebibytes, _, place = row
    if not place:
        return  # measured
    bound = constant(place)
    each = re.search(r"([0-9.]+) (KiB|MiB|bytes) (?:each|for each|as measured)", what)
    if each is None and bound >= IN_BYTES:
        assert number(mebibytes) * MIB == bound
    elif "values" not in what and "for either way" not in what and "phase" not in what:
        assert number(entries) == bound


def test_the_sum_is_less_than_the_memory_of_the_pod() -> None:
    (container,) = yaml.safe_load(LIMIT.read_text())["spec"]["template"]["spec"]["containers"]
    assert container["resources"]["limits"]["memory"] == "1280Mi"
    assert 1_024 < sum(number(row[2]) for row in ROWS) < 1_280


def test_intents_that_made_room_are_counted() -> None:
    ask_rules = ReviewSetup(ReviewOptions())
    for number in range(800):
        ((_, body),) = ATTACKS["intents with long types"](number)
        review(body, Phase.INTENT, ask_rules.dependencies, 0.0)
    counted = dict(ask_rules.dropped())
    assert counted["intents",] > 0
    assert counted["answers",] == 0

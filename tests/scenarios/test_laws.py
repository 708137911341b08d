"""The laws of a loop over every recorded scenario: see laws.py."""

import json
import re
from dataclasses import asdict, replace
from pathlib import Path

import pytest
import yaml

from tests.nightly import by_day
from tests.scenarios import laws, recording
from tests.scenarios.distorting import encoded
from tests.scenarios.expecting import Expected, complaints, examine, expectations

EXPECTED = expectations()
OTHERWISE = yaml.safe_load(Path(__file__).with_name("laws.yaml").read_text())
LAWS = laws.QUIET | laws.LOOPS | laws.FIGHTS
CASES = [
    f"{law} {name}"
    for name, one in EXPECTED.items()
    for law in (LAWS if one.find else laws.QUIET)
    if law not in laws.FIGHTS or laws.contested(one)[1]
]


@pytest.mark.parametrize("case", by_day(CASES, every=4))
def test_a_loop_stays_a_loop_and_a_quiet_life_quiet(case, tmp_path):
    law, name = case.split()
    lines, expected = laws.read(name), EXPECTED[name]
    hooks, webhooks = json.loads(recording.webhooks_of(name).read_text()), tmp_path / "hooks.json"
    if law == "renamed":
        hooks = laws.renamed(hooks, lines)
        expected = Expected(**laws.renamed(asdict(expected), lines))
    webhooks.write_text(json.dumps(hooks))
    result = examine(encoded(LAWS[law](lines, EXPECTED[name])), webhooks)
    if law in ("slower", *laws.FIGHTS):
        expected = replace(expected, find=[{**one, "severity": "info"} for one in expected.find])
    if law == "stamped":  # annotations of a Deployment count, and its generation is as it was
        expected = replace(expected, also=[*expected.also, "generation-mismatch"])
    late = re.compile("came late|was a warning before it was folded")
    wrong = [one for one in complaints(result, expected) if not late.search(one)]
    assert bool(wrong) is (case in OTHERWISE), wrong
    assert {*OTHERWISE} <= {*CASES}

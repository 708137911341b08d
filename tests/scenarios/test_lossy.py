"""Every recorded scenario, with reviews lost, doubled, interleaved or delayed.

What was not seen may lower a count, and nothing else. The examine is the same recording with only
those writes of which each review has arrived: what these show is found.
"""

import json
from typing import Any

import pytest

from tests.nightly import by_turns
from tests.scenarios import recording
from tests.scenarios.distorting import DISTORTIONS, encoded, only_whole, writes_of
from tests.scenarios.expecting import Result, complaints, examine, expectations

EXPECTED = expectations()
LOOPS = [name for name, one in EXPECTED.items() if one.find]
QUIET = [name for name, one in EXPECTED.items() if not one.find]
_SHARE = 0.8
"""Of the signs of the writes that were seen whole."""


def _pairs(names: list[str]) -> Any:
    """Every scenario with every distortion: by day with each twelfth, by night with all of them."""
    return pytest.mark.parametrize(("name", "distortion"), by_turns(names, [*DISTORTIONS], 12))


def results(name: str, distortion: str) -> tuple[Result, Result]:
    """Examine what has arrived, and what has arrived whole."""
    lines = [json.loads(line) for line in recording.read_lines(name)]
    writes = writes_of(lines)
    arrived = [*DISTORTIONS[distortion](lines, writes)]
    webhooks = recording.webhooks_of(name)
    whole = examine(encoded(only_whole(arrived, writes)), webhooks)
    return examine(encoded(arrived), webhooks), whole


def _wrong(result: Result, name: str) -> set[str]:
    """Return what is not found or falsely said: the sort of complaint, and the detector."""
    said = [one.replace("{'detector': '", "").split() for one in complaints(result, EXPECTED[name])]
    return {
        f"{words[0]} {words[2].strip(chr(39) + ',')}"
        for words in said
        if words[0] in ("not", "false:", "blames")
    }


@_pairs(LOOPS)
def test_a_loop_is_found_with_its_actor_whatever_is_not_seen(name, distortion):
    seen, whole = results(name, distortion)
    assert not _wrong(seen, name) - _wrong(whole, name)
    counts = {one["id"]: one["count"] for one in seen.findings}
    few = [
        one
        for one in whole.findings
        if one["severity"] != "info" and counts.get(one["id"], 0) < _SHARE * one["count"]
    ]
    assert not few, (counts, [(one["detector"], one["count"]) for one in few])
    if distortion != "a pause of a minute":
        assert not seen.resolved_too_early()


@_pairs(QUIET)
def test_a_quiet_scenario_stays_quiet_whatever_is_not_seen(name, distortion):
    seen, _ = results(name, distortion)
    assert not list(complaints(seen, EXPECTED[name]))

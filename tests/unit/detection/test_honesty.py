"""How often a controller raises observedGeneration with its status, and how often otherwise."""

import pytest

from genguard.detection.questions.numbers import HOW
from tests.unit.detection.story import Story

SPEC = ("alice", "", {"spec": {"a": "$n"}})


def status(phase, observed="$generation"):
    return "operator", "status", {"status": {"observedGeneration": observed, "phase": phase}}


ROUNDS = {
    "raised with the status": ([SPEC, status("$n")], {"raised": 20}),
    "raised alone, with nothing after it": ([SPEC, status("Ready")], {"raised": 20}),
    "raised before the status": (
        [SPEC, status("Ready"), status("Updating"), status("Ready")],
        {"raised": 20, "early": 19},
    ),
    "raised after the status": (
        [SPEC, status("Updating", "$before"), status("Updating"), status("Ready")],
        {"raised": 20, "late": 20},
    ),
    "never raised": ([SPEC, status("$n", 1)], {"never": 19}),
    "raised, cleared by somebody else and put back": (
        [SPEC, status("$n"), ("alice", "status", {"status": {"phase": "$n"}}), status("$n")],
        {"raised": 20},
    ),
    "raised and taken back": (
        [SPEC, status("$n"), status("$n", "$before")],
        {"raised": 20, "backwards": 20, "never": 19},
    ),
}
"""Writes of one round: user, subresource, fields. The first write of a phase adds it."""


@pytest.mark.parametrize("named", ROUNDS)
def test_how_the_number_is_raised_is_counted_by_writer(named):
    writes, expected = ROUNDS[named]
    users, places, asks = map(list, zip(*writes, strict=True))
    found = {"metadata": {"generation": 1}, "spec": {"a": 0}}
    story = Story(resource="deployments", found={**found, "status": {"observedGeneration": 1}})
    times = 20 * len(writes)
    story.play({"at": 0, "by": users, "to": places, "times": times, "asks": asks})
    (writer,) = story.honesty.writers()
    assert (writer.user, writer.group, writer.resource) == ("operator", "apps", "deployments")
    assert {how: getattr(writer, how) for how in HOW if getattr(writer, how)} == expected

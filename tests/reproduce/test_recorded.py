"""Every recorded loop becomes a small test: red as recorded, green without who makes it."""

import pytest

from genguard.reproduce.reproducer import folder_of
from tests.nightly import by_day
from tests.reproduce.making import LOOPS, is_red, made_of

_MOST_WRITES, _MOST_BYTES = 3, 1_500
NOT_PLAYED = {
    "conditions-of-a-pod-without-generation": "a merge patch has no single condition",
    "empty-ingress-put-again": "nobody makes it: genguard assumed another version of the server",
    "a-status-with-conditions-taken-away-by-a-webhook": "its writer is a storm by itself",
}
"""Loops whose test is not red or not green, and why."""
LARGER = {
    "replicas-of-gitops-and-an-autoscaler": "two of the four writes are of other controllers",
    "two-owners-of-one-name": "each of the two creates and deletes",
    "two-tools-replace-one-object": "each of the two creates and deletes",
}
"""Loops of more than three writes, and why."""


def test_nearly_all_are_small_and_played():
    for exceptions in (NOT_PLAYED, LARGER):
        share = 1 - len(exceptions) / len(LOOPS)
        print(f"{len(LOOPS) - len(exceptions)} of {len(LOOPS)}: {share:.1%}")
        assert share >= 0.95
        assert exceptions.keys() <= {*LOOPS}


@pytest.mark.parametrize("name", by_day(LOOPS, every=8))
def test_a_loop_is_small_red_as_recorded_and_green_without_who_makes_it(name, tmp_path):
    made, _ = made_of(name)
    assert (len(made.loop.writes) <= _MOST_WRITES) is (name not in LARGER)
    assert max(map(len, made.lines)) <= _MOST_BYTES
    for file, content in folder_of(made).items():
        (tmp_path / file).write_bytes(content)
    red, still_red = is_red(tmp_path), is_red(tmp_path, WITHOUT_CULPRIT="1")
    assert (red, still_red) == (True, False) or name in NOT_PLAYED

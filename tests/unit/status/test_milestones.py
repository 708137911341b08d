"""When which generation was reconciled."""

from msgspec.structs import replace

from genguard.status.tracking import MOST_STEPS, Milestone, Milestones
from tests.dashboard.crowd import state

DONE = state(1, "", 1_000.0)


def at(generation, settled_at):
    return replace(DONE, generation=generation, reconciled=generation, settled_at=settled_at)


def test_each_generation_that_was_reconciled_is_a_step():
    found = Milestones()
    for generation, when in ((1, 5.0), (1, 6.0), (3, 9.0)):
        found.record("a", at(generation, when))
    assert found.find("a") == (Milestone(5.0, 1), Milestone(9.0, 3))
    assert found.find("b") == ()


def test_what_is_not_settled_or_goes_back_is_none():
    found = Milestones()
    found.record("a", replace(at(2, 5.0), reconciled=1))
    found.record("a", replace(at(2, 5.0), settled_at=None))
    assert found.find("a") == ()
    found.record("a", at(2, 5.0))
    found.record("a", at(1, 6.0))
    assert found.find("a") == (Milestone(5.0, 2),)


def test_it_is_bounded_in_steps_and_objects():
    found = Milestones(most_objects=2)
    for generation in range(1, MOST_STEPS + 5):
        found.record("a", at(generation, float(generation)))
    assert len(found.find("a")) == MOST_STEPS
    for uid in ("b", "c"):
        found.record(uid, at(1, 1.0))
    assert (found.find("a"), len(found.find("c"))) == ((), 1)

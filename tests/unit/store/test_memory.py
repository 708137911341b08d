"""The memory of one process: what it forgets, and when. Times are given, nobody waits."""

from msgspec.structs import replace

from genguard.admission.review import JoinKey
from genguard.objects.observed import Observed
from genguard.review_setup import MemoryIntents, Recent

KEY = JoinKey("apps", "deployments", "status", "default", "a", "uid", "someone", "7", dry_run=False)
OTHER = replace(KEY, name="b")
FOUR, FIVE = Observed(4, ()), Observed(5, ())


def test_what_is_recent_is_there_and_what_is_old_is_not():
    recent: Recent[str, int] = Recent(30, 1_000, 1_000)
    recent.remember("a", 1, 1, 100.0)
    assert recent.recall("a", 129.9) == 1
    assert recent.recall("a", 130.0) is None
    assert recent.recall("b", 100.0) is None


def test_the_oldest_make_room():
    recent: Recent[int, int] = Recent(30, 3, 1_000)
    for number in range(5):
        recent.remember(number, number, 1, 0.0)
    assert len(recent) == 3
    assert [recent.recall(number, 0.0) for number in range(5)] == [None, None, 2, 3, 4]


def test_a_new_entry_sweeps_out_what_is_too_old():
    recent: Recent[int, int] = Recent(30, 1_000, 1_000)
    for number in range(100):
        recent.remember(number, 0, 1, float(number) / 100)
    recent.remember(100, 0, 1, 60.0)
    assert len(recent) == 1


def test_the_oldest_make_room_for_what_takes_much_and_that_is_counted():
    recent: Recent[str, int] = Recent(30, 10, 100)
    for key in "abcd":
        recent.remember(key, 0, 30, 0.0)
    recent.remember("e", 0, 70, 1.0)
    assert (recent.bytes, recent.dropped) == (100, 3)
    assert [recent.recall(key, 1.0) for key in "abcde"] == [None, None, None, 0, 0]
    recent.remember("d", 0, 10, 40.0)
    assert (len(recent), recent.bytes, recent.dropped) == (1, 10, 3), "too old is not dropped"
    recent.remember("f", 0, 101, 40.0)
    assert (len(recent), recent.bytes) == (0, 0), "what has no room at all is not kept"


def test_two_intents_on_their_way_that_differ_cancel_each_other():
    intents = MemoryIntents()
    intents.put(KEY, FOUR, 0.0)
    intents.put(KEY, FIVE, 1.0)
    intents.put(KEY, FIVE, 2.0)  # three that differ are no clearer than two
    assert intents.get(KEY, 3.0) is None
    assert intents.get(KEY, 4.0) is None


def test_cancelled_intents_that_were_asked_for_do_not_spoil_the_next_write():
    intents = MemoryIntents()
    intents.put(KEY, FOUR, 0.0)
    intents.put(KEY, FIVE, 1.0)
    assert intents.get(KEY, 2.0) is None
    intents.put(KEY, FIVE, 3.0)
    assert intents.get(KEY, 4.0) == FIVE

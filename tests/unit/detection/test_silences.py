"""Acknowledgements and silences of findings: what holds, until when, and in every replica alike."""

import msgspec
import pytest
from msgspec.structs import replace

from genguard.detection.finding import Severity
from genguard.detection.silences import (
    MOST_SECONDS,
    MOST_SILENCES,
    Action,
    Silence,
    Silences,
    TooManySilencesError,
)
from tests.unit.detection.test_fix import finding

NOW = 1_000_000.0
HOUR = 3_600.0
FINDING = finding(
    {
        "detector": "observed-generation-cleared",
        "subresource": "status",
        "paths": ["/status/observedGeneration"],
        "actors": ["webhook mmm/old.example.org certain"],
    }
)


def silence(name: str = "f", **changed) -> Silence:
    made = Silence(name, Action.SILENCED, "known", "ana", NOW, NOW + HOUR, Severity.WARNING)
    return replace(made, **changed)


def test_it_holds_until_its_end():
    silences = Silences()
    silences.put(silence(), NOW)
    assert silences.find("f", NOW + HOUR - 1) == silence()
    assert silences.find("f", NOW + HOUR) is None
    assert silences.find("other", NOW) is None
    assert silences.current(NOW + HOUR) == ()


def test_it_is_ended_early_and_who_did_it_is_known():
    silences = Silences()
    silences.put(silence(), NOW)
    ended = silences.end("f", "ben", NOW + 1)
    assert (ended.action, ended.by) == (Action.ENDED, "ben")
    assert silences.find("f", NOW + 2) is None
    assert silences.end("f", "ben", NOW + 2) is None
    assert silences.all(NOW + 2) == (ended,), "others must learn of it"
    assert silences.all(NOW + HOUR) == (), "but not for ever"


@pytest.mark.parametrize(
    ("action", "severity", "is_silent"),
    [
        (Action.SILENCED, Severity.WARNING, True),
        (Action.SILENCED, Severity.INFO, True),
        (Action.SILENCED, Severity.CRITICAL, False),
        (Action.ACKNOWLEDGED, Severity.WARNING, False),
        (Action.ENDED, Severity.WARNING, False),
    ],
)
def test_what_is_silenced_notifies_again_once_it_is_worse(action, severity, is_silent):
    made = silence(action=action)
    assert made.is_silent(replace(FINDING, severity=severity)) == is_silent


def test_of_two_entries_the_later_one_counts_in_every_replica():
    first, second = silence(), silence(action=Action.ENDED, at=NOW + 1)
    one, other = Silences(), Silences()
    one.merge([first, second], NOW + 2)
    other.merge([second], NOW + 2)
    other.merge([first], NOW + 2)
    assert one.all(NOW + 2) == other.all(NOW + 2) == (second,)
    tied = silence(reason="z")
    one, other = Silences(), Silences()
    one.merge([first, tied], NOW)
    other.merge([tied, first], NOW)
    assert one.all(NOW) == other.all(NOW)


def test_an_entry_counts_though_the_clock_was_set_back():
    silences = Silences()
    silences.put(silence(), NOW)
    later = silences.put(silence(action=Action.ACKNOWLEDGED, at=NOW - HOUR), NOW)
    assert later.at > NOW
    assert silences.find("f", NOW).action is Action.ACKNOWLEDGED


@pytest.mark.parametrize("until", [NOW, NOW - 1, NOW + MOST_SECONDS + 2 * 86_400, float("inf")])
def test_what_is_past_or_endless_is_not_taken_from_others(until):
    silences = Silences()
    silences.merge([silence(until=until)], NOW)
    assert len(silences) == 0


def test_there_is_room_for_so_many_and_those_that_ended_make_room():
    silences = Silences()
    for number in range(MOST_SILENCES):
        silences.put(silence(f"f-{number}"), NOW)
    with pytest.raises(TooManySilencesError):
        silences.put(silence("one more"), NOW)
    silences.merge([silence("from others")], NOW)
    assert len(silences) == MOST_SILENCES
    silences.put(silence("f-0", reason="another"), NOW)
    silences.end("f-7", "", NOW)
    silences.put(silence("one more"), NOW)
    assert len(silences) == MOST_SILENCES
    silences.put(silence("later", until=NOW + 3 * HOUR, at=NOW + 2 * HOUR), NOW + 2 * HOUR)
    assert len(silences) == 1, "past ones are forgotten"


def test_after_a_restart_everything_is_there_again():
    silences = Silences()
    silences.put(silence(), NOW)
    (mark,) = silences.marks()
    rows = [("f", silences.export("f"))]
    loaded = Silences()
    loaded.restore(rows)
    assert loaded.all(NOW) == (silence(),)
    assert list(loaded.marks()) == [mark]
    assert loaded.export("gone") is None
    silences.end("f", "", NOW + 1)
    assert list(silences.marks()) != [mark]
    with pytest.raises(msgspec.MsgspecError):
        Silences().restore([("f", b"\x93")])


def test_each_change_is_seen_by_its_version():
    silences = Silences()
    silences.merge([silence()], NOW)
    before = silences.version
    silences.merge([silence()], NOW)
    assert silences.version == before
    silences.end("f", "", NOW)
    assert silences.version > before


def test_one_that_comes_or_goes_while_all_are_saved_does_not_end_the_save():
    silences = Silences()
    for name in "abc":
        silences.put(silence(name), NOW)
    names = set()
    for number, (name, _) in enumerate(silences.marks()):
        names.add(name)
        silences.put(silence(f"new {number}"), NOW)
    assert names == {"a", "b", "c"}

"""When a review is shed, and what the log is told of it."""

import pytest

from webhook.server.overload import MOST_WAITED, MOST_WAITED_IN_EPISODE, Overload, Shed

TIMEOUT = 10.0
LONG, MIDDLING, SHORT = 6.0, 3.0, 1.0


@pytest.fixture
def overload() -> Overload:
    return Overload(quiet_seconds=5.0)


@pytest.mark.parametrize(("waited", "late"), [(LONG, True), (MIDDLING, False), (SHORT, False)])
def test_before_an_episode_only_what_can_no_longer_be_in_time_is_shed(overload, waited, late):
    assert overload.is_too_late(waited, TIMEOUT) is late


@pytest.mark.parametrize(("waited", "late"), [(LONG, True), (MIDDLING, True), (SHORT, False)])
def test_in_an_episode_less_waiting_is_allowed(overload, waited, late):
    overload.count(Shed.LATE, 0.0)
    assert overload.is_too_late(waited, TIMEOUT) is late


def test_an_episode_goes_on_until_nothing_was_shed_for_a_while(overload):
    overload.count(Shed.LATE, 0.0)
    overload.look(4.9)
    overload.count(Shed.LARGE, 4.9)
    overload.look(9.8)
    assert overload.is_too_late(MIDDLING, TIMEOUT)
    overload.look(9.9)
    assert not overload.is_too_late(MIDDLING, TIMEOUT)


def test_each_is_counted_by_what_there_was_too_much_of(overload):
    assert overload.shed == {Shed.LATE: 0, Shed.LARGE: 0, Shed.READING: 0}
    for reason in (Shed.LATE, Shed.READING, Shed.LATE):
        overload.count(reason, 0.0)
    assert overload.shed == {Shed.LATE: 2, Shed.LARGE: 0, Shed.READING: 1}


def test_the_log_has_one_line_when_it_begins_and_one_when_it_is_over(overload, caplog):
    overload.look(0.0)
    for now in (1.0, 1.5, 3.0, 3.25):
        overload.count(Shed.LATE, now)
        overload.look(now)
    for now in (9.0, 20.0):
        overload.look(now)
    overload.count(Shed.LARGE, 30.0)
    assert [(record.message, record.facts) for record in caplog.records] == [
        ("overloaded: reviews are shed", {"reason": "late"}),
        ("no longer overloaded", {"shed": 4, "seconds": 2.25}),
        ("overloaded: reviews are shed", {"reason": "large"}),
    ]


def test_there_is_time_left_for_the_answer():
    """On uvloop a request may have waited as long again before it could be known."""
    assert 0 < MOST_WAITED_IN_EPISODE < MOST_WAITED < 1 / 2

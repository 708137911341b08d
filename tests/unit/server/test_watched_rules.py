"""Watched kinds with a rule in CEL: evaluated in a thread, one object at a time."""

import asyncio
import time

import msgspec
import pytest

from genguard.objects.fields import fields_of
from genguard.status.health_rules import HealthRule, Key, RuleAnswers
from genguard.status.tracking import Tracking
from webhook.server.watching import Watching

RULE = HealthRule("example.org", "Widget", {Key.CURRENT: "status.done"}, "f")


class Rules:
    """Answers from the object itself; each call may wait for a signal."""

    def __init__(self) -> None:
        self.asked = []
        self.on_answer = lambda: None

    def covers(self, group, kind):
        return (group, kind) == ("example.org", "Widget")

    def answer(self, group, kind, document):
        status = msgspec.json.decode(document.get("status", b"{}"))
        self.asked.append(status)
        self.on_answer()
        return RuleAnswers(RULE, {Key.CURRENT: bool(status.get("done"))})


def widget(uid="u", version=1, **status):
    return {
        "apiVersion": "example.org/v1",
        "kind": "Widget",
        "metadata": {"name": "a", "uid": uid, "generation": 1, "resourceVersion": str(version)},
        "status": status,
    }


def state(tracking, uid="u"):
    found = tracking.find(uid)
    return None if found is None else (found.state.ready, found.state.settled)


@pytest.fixture
def watched():
    rules, tracking = Rules(), Tracking()
    return rules, tracking, Watching(["widgets.example.org"], tracking, rules)


def see(watching, document):
    return watching.seen("widgets.example.org", fields_of(document))


async def test_an_object_is_tracked_once_its_rule_was_asked(watched):
    rules, tracking, watching = watched
    for version, done in ((1, True), (2, False)):
        await see(watching, widget(version=version, done=done))
        assert state(tracking) == (done, done)
    assert rules.asked == [{"done": True}, {"done": False}]


async def test_one_rule_is_asked_at_a_time_so_that_threads_are_left_for_reviews(watched):
    rules, tracking, watching = watched
    now, most = set(), []

    def ask():
        now.add(name := object())
        most.append(len(now))
        time.sleep(0.01)
        now.discard(name)

    rules.on_answer = ask
    await asyncio.gather(*(see(watching, widget(uid=f"u{number}", done=True)) for number in "abc"))
    assert most == [1, 1, 1]
    assert state(tracking, "uc") == (True, True)

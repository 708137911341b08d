"""Watched kinds with a rule in CEL: judged in a thread, tracked in order, bounded."""

import asyncio

import msgspec
import pytest

from genguard.objects.fields import fields_of
from genguard.status.health_rules import HealthRule, Key, RuleAnswers
from genguard.status.tracking import Tracking
from tests.waiting import until
from webhook.server import watching as module
from webhook.server.watching import Watching

RULE = HealthRule("example.org", "Widget", {Key.CURRENT: "status.done"}, "f")


class Rules:
    """Answers from the object itself; each call may wait for a signal."""

    def __init__(self) -> None:
        self.asked = []
        self.on_judge = lambda: None

    def covers(self, group, kind):
        return (group, kind) == ("example.org", "Widget")

    def judge(self, group, kind, document):
        status = msgspec.json.decode(document.get("status", b"{}"))
        self.asked.append(status)
        self.on_judge()
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
    watching.seen("widgets.example.org", fields_of(document))


async def test_of_an_object_that_waits_the_latest_state_alone_is_judged(watched):
    rules, tracking, watching = watched
    see(watching, widget(version=1, done=True))
    see(watching, widget(version=2, done=False))
    async with watching.judging():
        await until(lambda: state(tracking) == (False, False))
    assert rules.asked == [{"done": False}]


async def test_an_object_that_is_deleted_while_its_rule_is_asked_does_not_come_back(watched):
    rules, tracking, watching = watched
    loop = asyncio.get_running_loop()
    rules.on_judge = lambda: loop.call_soon_threadsafe(watching.gone, "u")
    see(watching, widget(done=True))
    see(watching, widget(uid="v", done=True))
    async with watching.judging():
        rules_done = lambda: len(rules.asked) == 2 and not watching._waiting  # noqa: E731
        await until(rules_done)
        await until(lambda: state(tracking, "v") is not None)
    assert state(tracking) is None


async def test_what_waits_is_bounded_in_number_and_bytes(monkeypatch, caplog):
    monkeypatch.setattr(module, "MOST_WAITING", 3)
    watching = Watching(["widgets.example.org"], Tracking(), Rules())
    for number in range(5):
        see(watching, widget(uid=f"u{number}", done=True))
    assert (len(watching._waiting), watching._waiting.dropped) == (3, 2)
    monkeypatch.setattr(module, "MOST_WAITING_BYTES", 10)
    watching = Watching(["widgets.example.org"], Tracking(), Rules())
    see(watching, widget(uid="more", done=True))
    assert (len(watching._waiting), watching._waiting.bytes) == (0, 0)
    said = "objects not judged: too many at once"
    assert [one.message for one in caplog.records] == [said, said], "once for each of them"

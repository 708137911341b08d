"""Kinds with a rule in CEL: judged in a thread, tracked in order, bounded."""

import asyncio
import json

import msgspec
import pytest

from genguard.admission.review import Phase
from genguard.detection.detection import Detection
from genguard.objects.fields import fields_of
from genguard.review import review
from genguard.status.health_rules import HealthRule, Key, RuleAnswers
from genguard.status.tracking import Tracking
from tests.reviews import judge, make_review
from tests.waiting import until
from webhook.server import watching as module
from webhook.server.detecting import Detecting
from webhook.server.watching import JudgedObjects, Watching

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


def outcome(new, old):
    asked = make_review("UPDATE", "widgets", new, old, subresource="status")
    for which in ("kind", "resource"):
        asked["request"][which] |= {"group": "example.org", "version": "v1"}
    asked["request"]["kind"]["kind"] = "Widget"
    return review(json.dumps(asked).encode(), Phase.OUTCOME, judge(), 0.0).verdict


async def test_a_review_of_such_a_kind_is_tracked_as_its_rule_says():
    rules, tracking = Rules(), Tracking()
    detecting = Detecting(Detection(), {}, tracking, rules=rules)
    detecting.start()
    detecting.put(Phase.OUTCOME, outcome(widget(done=False), widget(version=1)), 1_000)
    await until(lambda: state(tracking) == (False, False))
    detecting.put(Phase.OUTCOME, outcome(widget(version=2, done=True), widget(version=2)), 1_000)
    await until(lambda: state(tracking) == (True, True))
    await detecting.stop()
    assert {"done": True} in rules.asked


async def test_reviews_of_other_kinds_ask_no_rule():
    rules, tracking = Rules(), Tracking()
    detecting = Detecting(Detection(), {}, tracking, rules=rules)
    detecting.start()
    asked = make_review("CREATE", "deployments", {"metadata": {"uid": "d"}, "spec": {}})
    verdict = review(json.dumps(asked).encode(), Phase.OUTCOME, judge(), 0.0).verdict
    detecting.put(Phase.OUTCOME, verdict, 100)
    await until(lambda: not len(detecting))
    await detecting.stop()
    assert rules.asked == []


@pytest.fixture
async def watched():
    rules, tracking = Rules(), Tracking()
    judged = JudgedObjects(rules, tracking)
    yield rules, tracking, judged, Watching(["widgets.example.org"], tracking, judged)


def see(watching, document):
    watching.seen("widgets.example.org", fields_of(document))


async def test_a_watched_object_is_tracked_once_its_rule_has_spoken(watched):
    _, tracking, judged, watching = watched
    see(watching, widget(done=True))
    assert state(tracking) is None
    task = asyncio.create_task(judged.run())
    await until(lambda: state(tracking) == (True, True))
    task.cancel()
    assert (len(judged), judged.bytes) == (0, 0)


async def test_of_an_object_that_waits_the_latest_state_alone_is_judged(watched):
    rules, tracking, judged, watching = watched
    see(watching, widget(version=1, done=True))
    see(watching, widget(version=2, done=False))
    task = asyncio.create_task(judged.run())
    await until(lambda: state(tracking) == (False, False))
    task.cancel()
    assert rules.asked == [{"done": False}]


async def test_an_object_that_is_deleted_while_its_rule_is_asked_does_not_come_back(watched):
    rules, tracking, judged, watching = watched
    loop = asyncio.get_running_loop()
    rules.on_judge = lambda: loop.call_soon_threadsafe(watching.gone, "u")
    see(watching, widget(done=True))
    see(watching, widget(uid="v", done=True))
    task = asyncio.create_task(judged.run())
    rules_done = lambda: len(rules.asked) == 2 and not len(judged)  # noqa: E731
    await until(rules_done)
    await until(lambda: state(tracking, "v") is not None)
    task.cancel()
    assert state(tracking) is None


async def test_what_waits_is_bounded_in_number_and_bytes(watched, monkeypatch, caplog):
    _, _, judged, watching = watched
    monkeypatch.setattr(module, "MOST_WAITING", 3)
    for number in range(5):
        see(watching, widget(uid=f"u{number}", done=True))
    assert (len(judged), judged.dropped) == (3, 2)
    monkeypatch.setattr(module, "MOST_WAITING_BYTES", 10)
    see(watching, widget(uid="more", done=True))
    assert (len(judged), judged.bytes) == (0, 0)
    assert [one.message for one in caplog.records] == ["objects not judged: too many at once"]

"""Terminating pods by name: the longest overdue first, and what each waits for."""

from collections import Counter
from datetime import UTC, datetime
from types import SimpleNamespace

from genguard.status.terminating_pods import TerminatingPod
from tests.cases_loader import table
from webhook.dashboard.page import PageContext
from webhook.dashboard.terminating import load

NOW = datetime(2026, 1, 1, 12, 0, tzinfo=UTC).timestamp()
CREATED = "2026-01-01T11:00:00Z"


def pod(name: str, due: str = "2026-01-01T12:00:30Z", **changed) -> TerminatingPod:
    made = TerminatingPod("shop", name, f"uid-{name}", "Job", CREATED, due, 30, "node-1", ())
    return made._replace(**changed)


class Queue:
    async def in_thread(self, make):
        return make()


class Watching:
    """Watches pods alone."""

    def __init__(self, *pods: TerminatingPod) -> None:
        self.terminating = SimpleNamespace(
            terminating=lambda: iter(pods), pods=lambda: Counter(one.controller for one in pods)
        )

    def knows(self, *resources: str) -> bool:
        return set(resources) == {"pods"}

    def states(self):
        return {"pods": True}


async def shown(*pods: TerminatingPod, **query: str):
    sources = SimpleNamespace(watching=Watching(*pods))
    return (await load(PageContext(sources, None, Queue()), query, NOW)).model


@table("dashboard/terminating.yaml", "pod", "left", "deleted", "waits")
async def test_what_is_left_of_the_grace_period(case):
    (one,) = (await shown(pod("a", **case["pod"]))).terminating
    found = (one.left, one.deleted, one.waiting_for)
    assert found == (case["left"], case["deleted"], case["waits"]), case.because
    assert one.created == CREATED


async def test_the_longest_overdue_comes_first_and_they_are_counted_by_controller_and_node():
    page = await shown(
        pod("later", "2026-01-01T11:30:00Z", node="node-2"),
        pod("first", "2026-01-01T11:00:00Z"),
        pod("in time", controller="ReplicaSet"),
    )
    assert [one.name for one in page.terminating] == ["first", "later", "in time"]
    assert page.overdue == 2
    assert page.nodes == {"node-1": 2, "node-2": 1}
    assert page.pods == {"Job": 2, "ReplicaSet": 1}

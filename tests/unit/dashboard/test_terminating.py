"""Terminating pods by name: the longest overdue first, and what each waits for."""

from collections import Counter
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest

from genguard.status.terminating_pods import TerminatingPod
from webhook.dashboard.page import BadQueryError, PageContext
from webhook.dashboard.terminating import MOST_SHOWN, load

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


@pytest.mark.parametrize(
    ("given", "left", "deleted", "waiting_for"),
    [
        (pod("a"), 30.0, "2026-01-01T12:00:00Z", "node-1 to stop its containers"),
        (pod("a", finalizers=("x/y",)), 30.0, "2026-01-01T12:00:00Z",
         "node-1 to stop its containers, then for finalizers x/y"),
        (pod("a", "2026-01-01T11:00:00Z"), -3_600.0, "2026-01-01T10:59:30Z",
         "node-1 to confirm that its containers stopped"),
        (pod("a", "2026-01-01T11:00:00Z", finalizers=("x/y",)), -3_600.0, "2026-01-01T10:59:30Z",
         "node-1 to confirm that its containers stopped, then for finalizers x/y"),
        (pod("a", "2026-01-01T11:00:00Z", node="", finalizers=("x/y",)), -3_600.0,
         "2026-01-01T10:59:30Z", "finalizers x/y"),
        (pod("a", "2026-01-01T11:00:00Z", node="", grace=0), -3_600.0, "2026-01-01T11:00:00Z",
         "the API server to remove it"),
        (pod("a", "2026-01-01T11:59:59Z", grace=2**63 - 1), -1.0, "2026-01-01T12:00:00Z",
         "node-1 to confirm that its containers stopped"),
        (pod("a", "2026-01-01T12:00:00Z", grace=-(2**63)), 0.0, "2026-01-01T12:00:00Z",
         "node-1 to confirm that its containers stopped"),
        (pod("a", "0001-01-01T00:00:00Z"), -63902865600.0, None,
         "node-1 to confirm that its containers stopped"),
        (pod("a", "no time"), None, None, "node-1 to confirm that its containers stopped"),
        (pod("a", "2026-01-01T13:00:30+01:00"), 30.0, "2026-01-01T12:00:00Z",
         "node-1 to stop its containers"),
    ],
)  # fmt: skip
async def test_what_is_left_of_the_grace_period(given, left, deleted, waiting_for):
    (one,) = (await shown(given)).terminating
    assert (one.left, one.deleted, one.waiting_for) == (left, deleted, waiting_for)
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


async def test_of_many_there_are_pages():
    many = [pod(f"p-{number:03}") for number in range(MOST_SHOWN + 5)]
    page = await shown(*many, page="2")
    assert (len(page.terminating), page.total, page.page, page.pages) == (5, MOST_SHOWN + 5, 2, 2)
    assert page.terminating[0].name == f"p-{MOST_SHOWN:03}"


@pytest.mark.parametrize(
    ("text", "names"),
    [("NODE-2", ["b"]), ("x/y", ["a"]), ("shop a", ["a"]), ("none", []), ("", ["a", "b"])],
)
async def test_a_search_looks_at_names_nodes_and_finalizers(text, names):
    page = await shown(pod("a", finalizers=("x/y",)), pod("b", node="node-2"), q=text)
    assert [one.name for one in page.terminating] == names


async def test_an_unknown_parameter_is_told():
    with pytest.raises(BadQueryError, match="unknown parameter"):
        await shown(x="1")

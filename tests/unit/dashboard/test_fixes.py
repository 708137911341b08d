"""Findings come with the change that ends them, unless there are too many in one answer."""

from types import SimpleNamespace

import pytest

from genguard.detection.finding import Finding
from genguard.detection.history import History
from genguard.status.tracking import Tracking
from tests.unit.detection.test_fix import finding
from webhook.dashboard import findings
from webhook.dashboard.page import PageContext, Sources

CLEARED = finding(
    {
        "detector": "observed-generation-cleared",
        "subresource": "status",
        "paths": ["/status/observedGeneration"],
        "actors": ["webhook mmm/old.example.org certain"],
    }
)


class Queue:
    async def in_thread(self, make):
        return make()


def context(*found: Finding, mode="enforcing", samples=(), detects=True):
    ledger = SimpleNamespace(samples=lambda ids: {k: v for k, v in samples if k in ids})
    detection = SimpleNamespace(ledger=ledger, history=History())
    sources = Sources(
        detecting=SimpleNamespace(
            findings=lambda: found, detection=detection, tracking=Tracking(), detects=detects
        ),
        mutators=SimpleNamespace(registered=()),
        watching=None,
        metrics=None,
        about=lambda: {"mode": mode},
        connected=True,
        enforce=lambda: "genguard install --replicas 3 --ha",
    )
    return PageContext(sources, server=None, queue=Queue())


@pytest.mark.parametrize(
    ("mode", "at", "title"),
    [
        ("enforcing", 0, "Nothing has to be stopped at once"),
        ("audit-only", -1, "Or let genguard restore the value"),
    ],
)
async def test_the_steps_of_one_finding_fit_what_the_server_does(mode, at, title):
    data = await findings.load_finding(context(CLEARED, mode=mode), {"id": "f1"}, 0.0)
    step = data.model.fix[at]
    assert step.title == title
    assert (step.command == "genguard install --replicas 3 --ha") == (mode == "audit-only")


@pytest.mark.parametrize(
    ("count", "is_fixed"),
    [(1, True), (findings.MOST_WITH_FIX, True), (findings.MOST_WITH_FIX + 1, False)],
)
async def test_an_answer_of_very_many_findings_leaves_the_steps_out(count, is_fixed):
    data = await findings.load_all(context(*[CLEARED] * count), {}, 0.0)
    assert len(data.model.findings) == count
    assert all(bool(one.fix) is is_fixed for one in data.model.findings)

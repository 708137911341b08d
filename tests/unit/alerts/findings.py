"""A finding to turn, and a clock to turn it by."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from genguard.detection.finding import Actor, Confidence, Finding, FoundObject, Severity
from webhook.alerts.change import Change, Transition
from webhook.telemetry.logs import LOGGER

BEGUN = "2026-01-02T03:04:05Z"
CANARY = "canary-7f3a"
"""A value out of an object, which only evidence may hold."""


class Clock:
    """Stands still until it is moved."""

    def __init__(self) -> None:
        self.now = datetime(2026, 1, 2, 3, 5, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now

    def go(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)


def finding(**changes: Any) -> Finding:
    """Of a webhook that zeroes the status of a Deployment; `changes` replace fields."""
    made = Finding(
        id="0123456789abcdef",
        detector="observed-generation-cleared",
        severity=Severity.WARNING,
        state="open",
        object=FoundObject("apps", "v1", "deployments", "shop", "web", "uid-1"),
        subresource="status",
        paths=("/status/observedGeneration",),
        actors=(Actor("webhook", "old-operator/hook", "", Confidence.CERTAIN),),
        count=3,
        first_seen=BEGUN,
        last_seen="2026-01-02T03:04:59Z",
        message="another webhook cleared 1 observedGeneration value(s) that controller sent",
        evidence=({"time": BEGUN, "asked": CANARY},),
    )
    return msgspec.structs.replace(made, **changes)


def on(name: str, namespace: str = "shop") -> FoundObject:
    return FoundObject("apps", "v1", "deployments", namespace, name, f"uid-of-{name}")


def change(turn: Transition, **changes: Any) -> Change:
    state = "resolved" if turn is Transition.RESOLVED else "open"
    return Change(turn, finding(**{"state": state, **changes}))


def own(caplog):
    """The lines of genguard's own logger: those of a test server may come between."""
    return [one for one in caplog.records if one.name == LOGGER.name]

"""As much as a server ever remembers: 10,000 findings and 100,000 objects."""

import time

import msgspec

from genguard.detection import questions
from genguard.detection.question import ChangedBy, Signal
from genguard.detection.write import Called, ObjectKey
from genguard.status.counts import ResourceKind
from genguard.status.tracked_state import Milestone, TrackedState
from genguard.status.view import Health
from tests.contract.service import Running
from tests.dashboard.stories import OLD_OPERATOR
from tests.unit.detection.builders import INTENT, MUTATE, joined, status, update
from tests.unit.status.story import put

FINDINGS = 10_000
OBJECTS = 100_000
_KINDS = (
    ResourceKind("apps", "deployments", "Deployment"),
    ResourceKind("apps", "replicasets", "ReplicaSet"),
    ResourceKind("", "pods", "Pod"),
    ResourceKind("", "pods", "Pod"),
)
_SEVERAL = 4


def crowd(run: Running, findings: int = FINDINGS, objects: int = OBJECTS) -> None:
    """Findings of all detectors, some by several webhooks; objects as trees of three levels."""
    now = time.time()
    detecting = run.detecting
    asked = update(status(observedGeneration=1), status(), subresource="status")
    (write,) = joined((INTENT, asked), (MUTATE, asked), now=now)
    both = f"{OLD_OPERATOR}/status.example.org", "nnn-second/status.example.org"
    called = Called(both, ())  # which of the two it was is told anew each time
    names = tuple(questions.FINDINGS)
    for number in range(findings):
        where = ObjectKey(
            "apps", "v1", "deployments", f"team-{number % 50}", f"web-{number}", f"f-{number}"
        )
        sign = Signal(
            ChangedBy.OTHERS, ("/status/observedGeneration",), "another webhook cleared it"
        )
        for turn in range(1 + number % _SEVERAL):
            at = now - number / 1_000 - turn
            detecting.detection.ledger.add(
                names[number % len(names)],
                sign,
                msgspec.structs.replace(write, object=where, time=at, called=called),
            )
    for number in range(objects):
        kind = _KINDS[number % len(_KINDS)]
        parent = number - number % len(_KINDS) + (0 if number % len(_KINDS) == 1 else 1)
        owner = f"uid-{parent}" if number % len(_KINDS) else ""
        put(detecting.tracking, f"uid-{number}", kind, state(number, owner, now))


def ended(run: Running, name: str, signs: int = 25) -> None:
    """A slow loop over a Deployment, one sign in 100 s, whose next sign is overdue for 100 s."""
    asked = update(status(observedGeneration=1), status(), subresource="status")
    (write,) = joined((INTENT, asked), (MUTATE, asked), now=time.time())
    where = ObjectKey("apps", "v1", "deployments", "shop", name, f"uid-{name}")
    called = Called((f"{OLD_OPERATOR}/status.example.org",), ())
    sign = Signal(ChangedBy.OTHERS, ("/status/conditions",), "another webhook overwrote it")
    for turn in reversed(range(signs)):
        at = time.time() - 200 - 100 * turn
        told = msgspec.structs.replace(write, object=where, time=at, called=called)
        run.detecting.detection.ledger.add("status-clobbered", sign, told)


def state(number: int, owner: str, now: float) -> TrackedState:
    is_bad = number % 97 == 0
    return TrackedState(
        kind=0,
        namespace=f"team-{number % 50}",
        name=f"thing-{number}",
        version=number,
        digest=number,
        generation=3,
        observed=2 if is_bad else 3,
        intent_at=now - 600,
        intent_seen=True,
        observed_at=None if is_bad else now - 590,
        changed_at=now - number / 1_000,
        ready=not is_bad,
        settled=not is_bad,
        health=Health.YELLOW if is_bad else Health.GREEN,
        has_been_ready=True,
        flips=(),
        milestones=(Milestone(now - 580, 2 if is_bad else 3),),
        blocked_by="status.observedGeneration 2, want 3" if is_bad else "",
        blocked_since=now - 600,
        application="",
        images=b"",
        owner=owner,
    )

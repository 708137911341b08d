"""Who is to blame for objects that do not come to rest: the findings about them.

A finding is about an object itself, about an owner of it, or about what it owns. Who causes it is
named where it begins: a consequence names its cause.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import Final

import msgspec

from genguard.detection.finding import Actor, Finding, FoundObject, Severity, labels_of
from genguard.generation.table import load_rows
from genguard.objects.served import Served
from genguard.objects.shown import printable
from genguard.status.evaluate import GRACE_SECONDS
from genguard.status.tracking import Tracked, Tracking
from genguard.status.trees import Node
from genguard.status.view import Health, StatusView

MOST_LEVELS: Final = 8
"""Of owners above an object, and of what it owns below it."""
_SHOWN: Final = 2


class Culprit(msgspec.Struct, frozen=True, rename="camel"):
    """One open finding about an object, and who causes it; `finding` is its id.

    over  nothing is left of it on this object, and no signal comes any more: it is resolved soon
    """

    finding: str
    detector: str
    severity: Severity
    state: str
    count: int
    actors: tuple[Actor, ...]
    message: str
    over: bool

    def __str__(self) -> str:
        who = ", ".join(labels_of(self.actors)[:_SHOWN]) or "not known who"
        over = "over: " if self.over else ""
        return printable(f"{over}{who}: {self.message}; genguard explain finding/{self.finding}")


class Culprits:
    """The open findings of a server about what a verb shows."""

    def __init__(
        self, findings: Iterable[Finding], kinds: Iterable[Served], clock: Callable[[], float]
    ) -> None:
        """`kinds` is what a cluster serves beside the known ones; `clock` gives Unix seconds."""
        self._clock: Final = clock
        self._known: Final = {
            finding.id: finding for finding in findings if finding.state != "resolved"
        }
        self._about: Final[defaultdict[str, list[Finding]]] = defaultdict(list)
        for finding in self._known.values():
            self._about[finding.object.identity].append(finding)
        self._resources: Final[defaultdict[tuple[str, str], set[str]]] = defaultdict(set)
        names = [(row.group, row.kind, row.resource) for row in load_rows()]
        for group, kind, resource in (*names, *((k.group, k.kind, k.resource) for k in kinds)):
            self._resources[group, kind].add(resource)

    def of(self, view: StatusView) -> tuple[Culprit, ...]:
        """Return the findings about one object, the worst first."""
        resources = sorted(self._resources.get((view.group, view.kind), ()))
        named = [FoundObject(view.group, "", r, view.namespace, view.name, "") for r in resources]
        identities, now = [view.uid, *(found.identity for found in named)], self._clock()
        over: dict[str, bool] = {}  # by cause, which may go on elsewhere
        for finding in (
            finding for identity in identities for finding in self._about.get(identity, ())
        ):
            name = finding.above if finding.above in self._known else finding.id
            over[name] = over.get(name, True) and finding.is_ending(now)
        causes = [self._known[name] for name in over]
        causes.sort(key=lambda cause: -cause.severity.rank)
        return tuple(
            Culprit(
                cause.id,
                cause.detector,
                cause.severity,
                cause.state,
                cause.count,
                cause.actors,
                cause.message,
                over[cause.id],
            )
            for cause in causes
        )  # fmt: skip

    def of_tree(self, root: Node) -> tuple[Culprit, ...]:
        """Return the findings about an object and what it owns, each once."""
        views = (node.assessment.view for node in root.walk())
        return tuple(dict.fromkeys(found for view in views for found in self.of(view)))

    def count_open(self, roots: Iterable[Node]) -> int:
        """Count the findings of severity warning or critical about these trees, each once."""
        about = (culprit for root in roots for culprit in self.of_tree(root))
        return len({culprit.finding for culprit in about if culprit.severity is not Severity.INFO})


class Family:
    """Objects that are not settled below one root.

    shown        the one that blocks the others: the lowest that is stuck
    stuck_since  when what blocks one of them began, None while all are in progress
    """

    def __init__(self, root_uid: str) -> None:
        self.root_uid: Final = root_uid
        self.root: Tracked | None = None
        self.shown: Tracked | None = None
        self.count = 0
        self.stuck_since: float | None = None
        self.waiting_since = math.inf
        self._rank: tuple[bool, bool, bool, float] = (True, True, True, math.inf)

    def add(self, tracked: Tracked, stuck_since: float | None) -> None:
        """Count one of its objects; `stuck_since` is None while it is in progress."""
        self.count += 1
        if tracked.uid == self.root_uid:
            self.root = tracked
        state, is_stuck = tracked.state, stuck_since is not None
        if stuck_since is not None:
            self.stuck_since = min(stuck_since, self.stuck_since or stuck_since)
        self.waiting_since = min(self.waiting_since, state.blocked_since)
        # A spec that nobody observes explains most, then what failed, then what is oldest.
        is_red = state.health is Health.RED
        rank = (not is_stuck, not state.is_unobserved, not is_red, state.blocked_since)
        if self.shown is None or rank < self._rank:
            self.shown, self._rank = tracked, rank


class Blames:
    """The findings to blame for families. They are added by blame_rank: the first one counts."""

    def __init__(self, tracking: Tracking) -> None:
        self._tracking: Final = tracking
        self._known: Final[dict[str, Finding]] = {}
        self._about: Final[dict[str, Finding]] = {}
        self._below: Final[dict[str, Finding]] = {}

    def add(self, finding: Finding) -> None:
        """Add a finding that is not resolved."""
        self._known[finding.id] = finding
        self._about.setdefault(finding.object.identity, finding)
        found = self._tracking.find(finding.object.uid) if finding.object.uid else None
        for owner in owners(self._tracking, found) if found is not None else ():
            self._below.setdefault(owner.uid, finding)

    def find(self, family: Family) -> tuple[Finding | None, str]:
        """Return the finding to blame for objects that are not settled, and what it is about."""
        members = [member for member in (family.shown, family.root) if member is not None]
        above = [(owner, "owner") for member in members for owner in owners(self._tracking, member)]
        for tracked, relation in (*((member, "owned") for member in members), *above):
            if found := self._about.get(tracked.uid):
                is_root = tracked.uid == family.root_uid
                return self._cause(found), "object" if is_root else relation
        if below := self._below.get(family.root_uid):
            return self._cause(below), "owned"
        return None, ""

    def _cause(self, finding: Finding) -> Finding:
        return self._known.get(finding.above, finding)


def owners(tracking: Tracking, found: Tracked) -> Iterator[Tracked]:
    """Yield the owner of an object, the owner of that, and so on; they may form a cycle."""
    for _ in range(MOST_LEVELS):
        owner = tracking.find(found.state.owner) if found.state.owner else None
        if owner is None:
            return
        yield owner
        found = owner


def stuck_since(
    tracking: Tracking, found: Tracked, about: frozenset[str], now: float
) -> float | None:
    """Return since when an object is stuck, None while it is in progress.

    about  uids of the objects whose damage findings say is there
    """
    state = found.state
    stuck_at = tracking.stuck_at(found)
    if state.is_unobserved and found.uid in about:
        stuck_at = state.blocked_since + GRACE_SECONDS
    if state.settled or stuck_at is None or now < stuck_at:
        return None
    return min(stuck_at, state.blocked_since)


def root_of(tracking: Tracking, found: Tracked) -> str:
    """Return the uid of the topmost owner that is not settled, or of the object itself."""
    root = found.uid
    for owner in owners(tracking, found):
        if not owner.state.settled:
            root = owner.uid
    return root


def damaged_objects(findings: Iterable[Finding]) -> frozenset[str]:
    """Return the uids of the objects whose damage findings say is there."""
    return frozenset(
        finding.object.uid
        for finding in findings
        if finding.state != "resolved"
        and finding.object.uid
        and not (finding.repaired or finding.restored)
    )


def blame_rank(finding: Finding) -> tuple[bool, int, int]:
    """Sorts those first that blame somebody, and the worst of them."""
    return not finding.actors, -finding.severity.rank, -finding.count

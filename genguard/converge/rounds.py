"""Apply a manifest again and again in thought, and find who keeps it from coming to rest.

The first apply is a dry run of the API server, with everything that acts on a write. What follows
cannot be a dry run, since nothing was stored: so the webhooks are called one by one, with the
reviews that the API server would send. That also shows who changed what.

Relies  on `Cluster`, which sends dry runs and calls webhooks
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from genguard.blame.field_paths import FieldPath, leaves, show
from genguard.blame.managed import atomic_paths
from genguard.converge.chain import Document, Link, Passed, run
from genguard.converge.contest import Contest, Contested, ConvergeResult, CycleStep, Level, Party
from genguard.converge.creation import PODS, TEMPLATES, pod_of
from genguard.converge.fields import Difference, as_owned, at, differences, overlay, overwritten
from genguard.detection.finding import Confidence
from genguard.detection.write import is_policy
from genguard.generation.library import predict
from genguard.objects.fields import ABSENT, to_pointer
from genguard.objects.served import Served

MOST_ROUNDS: Final = 8
_QUIET_ROUNDS: Final = 2
"""Rounds without a change after which an object is at rest: some webhooks act now and then."""
_ITEM: Final = re.compile(r"\[[^\]]*\]")
_POINTER: Final = "/status/observedGeneration"
_OF_MANIFESTS: Final = ("name", "namespace", "labels", "annotations", "finalizers")
"""Metadata that one may ask for."""
_APPLY: Final = "the next apply"
_EARLIER: Final = "an apply before"
_CONTROLLER: Final = "its controller"
_SERVER: Final = Party("apiserver", "the API server")
_Changes = list[tuple[str, list[FieldPath]]]


class RefusedApplyError(Exception):
    """The API server refuses the apply; the message is its own."""


class Cluster(Protocol):
    """What rounds ask of a cluster. Nothing is stored."""

    @property
    def links(self) -> Sequence[Link]:
        """The mutating webhooks, in the order of their calls."""

    @property
    def left_out(self) -> Mapping[str, str]:
        """Who acts on these writes and is not called for dry runs, with the reason."""

    async def pause(self) -> None:
        """Wait until the clock shows another second: a webhook may write down the time."""

    async def apply(self, manifest: Document) -> Document:
        """Return what a forced server-side apply would store. Raises RefusedApplyError."""

    async def call(self, webhook: str, review: Document) -> Any:
        """Send a review to one webhook; return its answer. Raises NotCalledError."""

    def matches(self, webhook: str, review: Document) -> bool:
        """Whether the API server calls a webhook for a review."""

    def policies(self, review: Document, pointer: str) -> Sequence[str]:
        """Return the MutatingAdmissionPolicies that act on a review and visibly set a field.

        It is not known what the others set: the API server itself writes some fields in another
        way, which is no fault of theirs.
        """

    def review(
        self, operation: str, new: Document, old: Document | None, subresource: str = ""
    ) -> Document:
        """Return the AdmissionReview of a write, as a dry run."""


@dataclass(slots=True)
class Asked:
    """What one run is about.

    stored    the object as it is now, None where there is none
    statuses  two statuses that a controller might report
    others    fields that others own and want otherwise, found beforehand
    """

    served: Served
    manifest: Document
    stored: Document | None
    statuses: tuple[Document, Document] = ({}, {})
    others: Sequence[Contested] = ()

    @property
    def operation(self) -> str:
        """What an apply is."""
        return "CREATE" if self.stored is None else "UPDATE"

    @property
    def start(self) -> Document:
        """What an apply asks for, before anybody acts on it."""
        start: Document = overlay(self.stored or {}, self.manifest)
        return start


@dataclass(slots=True)
class _Found:
    contested: list[Contested] = field(default_factory=list)
    missed: dict[str, str] = field(default_factory=dict)
    settles_after: int = 0


async def converge(asked: Asked, cluster: Cluster) -> ConvergeResult:
    """Find who fights over an object of a manifest.

    Raises RefusedApplyError where nobody but the manifest is the reason.
    """
    found = _Found(list(asked.others))
    try:
        applied = await cluster.apply(asked.manifest)
    except RefusedApplyError as error:
        review = cluster.review(asked.operation, asked.start, asked.stored)
        passed = await _run(cluster, review, found)
        refused = _refused(passed, str(error))
        if refused is None:
            raise
        found.contested.append(refused)
        return _result(asked, cluster, found)
    found.contested = [other for other in asked.others if not _is_joined(other, asked, applied)]
    again = overlay(applied, asked.manifest, atomic=atomic_paths(applied))
    first = await _run(cluster, cluster.review(asked.operation, again, asked.stored), found)
    rounds = await _rounds(applied, asked, cluster, found)
    every = [first, *(passed for passed, _ in rounds)]
    last = rounds[-1][0]
    found.contested += _overwritten(asked, applied, first, cluster, found)
    found.contested += _overwritten(asked, last.object, last, cluster, found)
    if last.refused:
        name, _, reason = last.refused.partition(": ")
        by = (Party("webhook", name),)
        found.contested.append(Contested(Contest.REFUSED, Level.FIGHT, (), by, note=reason))
    elif found.settles_after:
        found.contested += await _invalid(applied, every, cluster)
    else:
        found.contested += _unsettled(asked, rounds)
    found.contested += await _status(asked, applied, cluster, found)
    return _result(asked, cluster, found)


async def taken_from_pods(
    workload: Document, made: Document | None, pods: Cluster
) -> list[Contested]:
    """Return what each pod of a template loses; what policies take away is not allowed: a note.

    made  a pod that was created as a dry run; None where what is left of it was refused
    """
    pod, above, found = pod_of(workload), TEMPLATES[workload["kind"]], _Found()
    passed = await _run(pods, pods.review("CREATE", overlay(made or {}, pod), None), found)
    lost = _overwritten(Asked(PODS, pod, None), made or passed.object, passed, pods, found)
    return [
        Contested(
            Contest.TAKEN_FROM_PODS,
            Level.NOTE if all(is_policy(each.name) for each in loss.parties) else loss.level,
            (*above, *loss.path),
            loss.parties,
            loss.cycle[1:],
        )
        for loss in lost
        if loss.cycle[-1].value is ABSENT
    ]


def _is_joined(contested: Contested, asked: Asked, applied: Document) -> bool:
    """Whether an apply of an empty object leaves in it what others have there: it takes nothing."""
    stored = at(asked.stored, contested.path)
    return isinstance(stored, dict) and bool(stored) and stored == at(applied, contested.path)


def _result(asked: Asked, cluster: Cluster, found: _Found) -> ConvergeResult:
    metadata = asked.manifest.get("metadata") or {}
    which = {
        "group": asked.served.group,
        "version": asked.served.version,
        "resource": asked.served.resource,
        "kind": asked.served.kind,
        "namespace": metadata.get("namespace", ""),
        "name": metadata.get("name", ""),
    }
    left_out = {**cluster.left_out, **found.missed}
    return ConvergeResult(which, tuple(_distinct(found.contested)), found.settles_after, left_out)


def _distinct(contested: Iterable[Contested]) -> Iterator[Contested]:
    """Yield each field of a contest once, fights first."""
    seen = set()
    for entry in sorted(contested, key=lambda each: each.level is Level.NOTE):
        if (entry.contest, entry.path, entry.parties) not in seen:
            seen.add((entry.contest, entry.path, entry.parties))
            yield entry


async def _run(cluster: Cluster, review: Document, found: _Found) -> Passed:
    passed = await run(cluster.links, review, cluster.matches, cluster.call)
    found.missed |= passed.missed
    return passed


async def _rounds(
    applied: Document, asked: Asked, cluster: Cluster, found: _Found
) -> list[tuple[Passed, Document]]:
    """Apply until nothing changes; return each round with the object before it."""
    rounds: list[tuple[Passed, Document]] = []
    before, quiet = applied, 0
    for number in range(1, MOST_ROUNDS + 1):
        if quiet and rounds[-1][0].steps:
            await cluster.pause()
        new = overlay(before, asked.manifest)
        passed = await _run(cluster, cluster.review("UPDATE", new, before), found)
        rounds.append((passed, before))
        quiet = 0 if differences(before, passed.object) else quiet + 1
        if passed.refused or quiet == _QUIET_ROUNDS:
            found.settles_after = max(number - quiet, 1)
            break
        before = passed.object
    return rounds


def _refused(passed: Passed, reason: str) -> Contested | None:
    """Return the contest where a webhook made what the API server refuses."""
    for step in passed.steps:
        for difference in differences(step.before, step.after):
            if _is_about(reason, difference):
                by = [Party("webhook", step.webhook)]
                return _contested(Contest.REFUSED, difference, by, _APPLY)._replace(note=reason)
    return None


def _is_about(reason: str, difference: Difference) -> bool:
    """Whether a message of the API server is about a field.

    It names an item of a list by its index. It often names a map alone: then the key or the value
    stands in it.
    """
    path = re.escape(_ITEM.sub("", show(difference.path)))
    if not re.search(rf"(?<![\w.]){path}(?![\w.])", _ITEM.sub("", reason)):
        return False
    is_key = show(difference.path).endswith("]")
    return not is_key or difference.path[-1] in reason or f'"{difference.after}"' in reason


async def _invalid(
    applied: Document, passed: Sequence[Passed], cluster: Cluster
) -> list[Contested]:
    """Ask the API server whether it takes what the webhooks make of an update."""
    made = passed[-1].object
    if not differences(applied, made):
        return []
    kept = {key: value for key, value in made["metadata"].items() if key in _OF_MANIFESTS}
    try:
        await cluster.apply({**made, "metadata": kept})
    except RefusedApplyError as error:
        refused = (_refused(answer, str(error)) for answer in passed)
        return [refusal for refusal in refused if refusal is not None][:1]
    return []


def _overwritten(
    asked: Asked, applied: Document, passed: Passed, cluster: Cluster, found: _Found
) -> Iterator[Contested]:
    review = cluster.review(asked.operation, applied, asked.stored)
    changes = _changes(passed)
    unasked = [name for name in (*cluster.left_out, *found.missed) if "/" in name]
    unlike = overwritten(asked.manifest, applied)
    for difference in as_owned(unlike, asked.manifest, applied, asked.served):
        parties = _writers(changes, difference)
        if not parties and (difference.is_omitted or difference.is_filled):
            continue
        if not parties:
            names = cluster.policies(review, to_pointer(difference.path))
            parties = _candidates("policy", names, Confidence.LIKELY)
        parties = parties or _candidates("webhook", unasked, Confidence.POSSIBLE) or [_SERVER]
        yield _contested(
            Contest.OVERWRITTEN, difference, parties, _APPLY, is_fight=parties != [_SERVER]
        )


def _contested(
    contest: Contest,
    difference: Difference,
    by: Sequence[Party],
    first: str,
    *,
    is_fight: bool = True,
) -> Contested:
    """Return a contest over a value that `first` leaves, and the last of the parties another."""
    cycle = (
        CycleStep(first, difference.before),
        CycleStep(by[-1].name if by else "", difference.after),
    )
    level = Level.FIGHT if is_fight else Level.NOTE
    return Contested(contest, level, difference.path, tuple(by), cycle)


def _candidates(kind: str, names: Sequence[str], alone: Confidence) -> list[Party]:
    """Return parties that were not seen to act; `alone` is how sure it is of a single one."""
    sure = alone if len(names) == 1 else Confidence.POSSIBLE
    return [Party(kind, name, sure) for name in names]


def _changes(passed: Passed) -> _Changes:
    """Return which paths each call of a webhook changed."""
    return [
        (step.webhook, [difference.path for difference in differences(step.before, step.after)])
        for step in passed.steps
    ]


def _writers(changes: _Changes, wanted: Difference) -> list[Party]:
    """Return the webhooks that change a field, or the object or list that it is in."""
    names = [name for name, paths in changes if any(_touches(path, wanted.path) for path in paths)]
    return [Party("webhook", name) for name in dict.fromkeys(names)]


def _touches(path: FieldPath, other: FieldPath) -> bool:
    shorter = min(len(path), len(other))
    return path[:shorter] == other[:shorter]


def _unsettled(asked: Asked, rounds: Sequence[tuple[Passed, Document]]) -> Iterator[Contested]:
    """Yield what still changes when a manifest was applied many times."""
    passed, before = rounds[-1]
    known = asked.served.has_status if "." in asked.served.group else None
    made = predict("UPDATE", str(asked.served), passed.object, before, status_subresource=known)
    changes, set_paths = _changes(passed), [path for path, _ in leaves(asked.manifest)]
    unlike = differences(before, passed.object)
    for difference in as_owned(unlike, before, passed.object, asked.served):
        parties = _writers(changes, difference)
        is_fight = (
            made.moves
            or _grows(difference)
            or any(_touches(path, difference.path) for path in set_paths)
        )
        yield _contested(Contest.NEVER_SETTLES, difference, parties, _EARLIER, is_fight=is_fight)


def _grows(difference: Difference) -> bool:
    """Whether a value is what it was and more."""
    if difference.before is ABSENT:
        return True
    if isinstance(difference.before, str) and isinstance(difference.after, str):
        return (
            len(difference.after) > len(difference.before) and difference.before in difference.after
        )
    return False


async def _status(
    asked: Asked, applied: Document, cluster: Cluster, found: _Found
) -> list[Contested]:
    """Send two reports of a controller through the webhooks; what both lose is contested."""
    subresource = "status" if asked.served.has_status else ""
    lost: list[dict[FieldPath, tuple[Difference, _Changes]]] = []
    policies: Sequence[str] = ()
    for status in asked.statuses:
        if not status:
            return []
        old = {**applied, "status": asked.statuses[1 - asked.statuses.index(status)]}
        new = {**applied, "status": status}
        review = cluster.review("UPDATE", new, old, subresource)
        passed = await _run(cluster, review, found)
        changed, changes = differences(new, passed.object, below=("status",)), _changes(passed)
        gone = [difference for difference in changed if difference.before is not ABSENT]
        lost.append({difference.path: (difference, changes) for difference in gone})
        policies = policies or cluster.policies(review, _POINTER)
    contested = [_lost(*loss, asked) for path, loss in lost[0].items() if path in lost[1]]
    if policies and asked.served.has_status:
        parties = tuple(_candidates("policy", policies, Confidence.LIKELY))
        contested.append(
            Contested(Contest.STATUS_LOST, Level.FIGHT, ("status", "observedGeneration"), parties)
        )
    return contested


def _lost(difference: Difference, changes: _Changes, asked: Asked) -> Contested:
    parties = _writers(changes, difference)
    is_gone = difference.after is ABSENT or difference.path[-1] == "observedGeneration"
    # Nobody knows whether anybody reports on a kind without the subresource; and a value that is
    # only written in another way may suit the controller.
    is_fight = is_gone and asked.served.has_status
    return _contested(Contest.STATUS_LOST, difference, parties, _CONTROLLER, is_fight=is_fight)

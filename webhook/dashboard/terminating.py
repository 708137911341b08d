"""The page of terminating pods: by name, and counted against status.terminatingReplicas."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import islice
from typing import Final

import msgspec

from genguard.objects.metadata import parse_time
from genguard.status.terminating_pods import (
    DEPLOYMENT,
    REPLICA_SET,
    Agreement,
    Count,
    TerminatingPod,
    asked_at,
    waits_for,
)
from webhook.dashboard.page import (
    PageContext,
    PageData,
    check_parameters,
    has_words,
    number,
    part_of,
)

_NEEDED: Final = {
    DEPLOYMENT: ("deployments.apps", "replicasets.apps", "pods"),
    REPLICA_SET: ("replicasets.apps", "pods"),
}
MOST_SHOWN: Final = 100
_MOST_COMPARED: Final = 5_000
_MOST_PODS: Final = 100_000
_MOST_NODES: Final = 8
_PARAMETERS: Final = ("q", "page")
_EPOCH: Final = datetime.fromtimestamp(0, UTC)
"""The time at which a pod is due if its deletionTimestamp is no time."""


class ListedPod(msgspec.Struct, frozen=True, rename="camel"):
    """One terminating pod; times are RFC 3339, null if unknown.

    left         seconds until its grace period ends, negative once that is over
    waiting_for  what it waits for, in words
    """

    namespace: str
    name: str
    uid: str
    controller: str
    created: str | None
    deleted: str | None
    grace_seconds: int
    left: float | None
    node: str
    finalizers: tuple[str, ...]
    waiting_for: str


class KindCounts(msgspec.Struct, frozen=True):
    """The Deployments or the ReplicaSets, those that disagree first; `total` have such pods."""

    kind: str
    agreement: Agreement
    objects: tuple[Count, ...]
    total: int


class TerminatingPage(msgspec.Struct, frozen=True):
    """The data of the page.

    pods         their number by controller kind, null if pods are not watched
    nodes        their number by node, the nodes with most of them
    overdue      the number of those whose grace period is over
    terminating  one page of them by name, the longest overdue first; `total` match
    """

    pods: dict[str, int] | None
    nodes: dict[str, int]
    overdue: int
    terminating: tuple[ListedPod, ...]
    total: int
    page: int
    pages: int
    kinds: tuple[KindCounts, ...]
    watches: dict[str, bool]
    missing: tuple[str, ...]


async def load(context: PageContext, query: Mapping[str, str], now: float) -> PageData:
    """Return the pods and counts of watched objects."""
    check_parameters(query, _PARAMETERS)
    watching = context.sources.watching
    found = watching.terminating
    states = dict(watching.states())
    kinds = []
    for kind, needed in _NEEDED.items():
        if watching.knows(*needed):
            notable = list(islice(found.counts(kind, notable=True), _MOST_COMPARED))
            notable.sort(key=lambda row: (row.reported in (None, row.counted), -row.counted))
            shown = tuple(notable[:MOST_SHOWN])
            kinds.append(KindCounts(kind, found.agreement(kind), shown, len(notable)))
    pods = dict(found.pods().most_common()) if watching.knows("pods") else None
    known = tuple(islice(found.terminating(), _MOST_PODS))
    words = query.get("q", "").casefold().split()
    matching, nodes, overdue = await context.queue.in_thread(lambda: _select(known, words, now))
    rows, page, pages = part_of(matching, number(query, "page", 1, _MOST_PODS), MOST_SHOWN)
    model = TerminatingPage(
        pods=pods,
        nodes=nodes,
        overdue=overdue,
        terminating=tuple(_listed(row, now) for row in rows),
        total=len(matching),
        page=page,
        pages=pages,
        kinds=tuple(kinds),
        watches=states,
        missing=tuple(resource for resource in _NEEDED[DEPLOYMENT] if resource not in states),
    )
    return PageData(model, {"q": query.get("q", "")})


def _select(
    known: Iterable[TerminatingPod], words: Sequence[str], now: float
) -> tuple[list[TerminatingPod], dict[str, int], int]:
    """Return the matching pods, the nodes with most of them, and how many are overdue."""
    found = [
        pod
        for pod in known
        if not words
        or has_words(words, (pod.namespace, pod.name, pod.node, pod.controller, *pod.finalizers))
    ]
    dues = {pod.uid: parse_time(pod.due) or _EPOCH for pod in found}
    found.sort(key=lambda pod: (dues[pod.uid], pod.namespace, pod.name))
    nodes = Counter(pod.node or "no node" for pod in found)
    overdue = sum(due.timestamp() < now for due in dues.values())
    return found, dict(nodes.most_common(_MOST_NODES)), overdue


def _listed(pod: TerminatingPod, now: float) -> ListedPod:
    due = parse_time(pod.due)
    left = None if due is None else due.timestamp() - now
    asked = None if due is None else asked_at(due, pod.grace)
    return ListedPod(
        pod.namespace,
        pod.name,
        pod.uid,
        pod.controller,
        pod.created if parse_time(pod.created) else None,
        None if asked is None else f"{asked:%Y-%m-%dT%H:%M:%SZ}",
        pod.grace,
        left,
        pod.node,
        pod.finalizers,
        waits_for(pod.node, pod.finalizers, is_over=left is None or left <= 0),
    )

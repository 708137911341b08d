"""Terminating pods, and the workloads whose status says another number than their pods do."""

from collections.abc import Mapping
from itertools import islice
from typing import Final

import msgspec

from webhook.dashboard.scene import Scene, Seen, known_only
from webhook.status.terminating_pods import DEPLOYMENT, REPLICA_SET, Agreement, Count

_NEEDED: Final = {
    DEPLOYMENT: ("deployments.apps", "replicasets.apps", "pods"),
    REPLICA_SET: ("replicasets.apps", "pods"),
}
MOST_SHOWN: Final = 100
_MOST_LOOKED_AT: Final = 5_000


class OfKind(msgspec.Struct, frozen=True):
    """Deployments or ReplicaSets: the ones that disagree and have most first, `total` of them."""

    kind: str
    agreement: Agreement
    objects: tuple[Count, ...]
    total: int


class TerminatingPage(msgspec.Struct, frozen=True):
    """`pods` by the kind of their controller; null where pods are not watched."""

    pods: dict[str, int] | None
    kinds: tuple[OfKind, ...]
    watches: dict[str, bool]
    missing: tuple[str, ...]


async def look(scene: Scene, query: Mapping[str, str], _: float) -> Seen:
    """What is counted from the watched objects."""
    known_only(query, ())
    watching = scene.sources.watching
    found = watching.terminating
    states = dict(watching.states())
    wanted = dict.fromkeys(one for needed in _NEEDED.values() for one in needed)
    kinds = []
    for kind, needed in _NEEDED.items():
        if watching.knows(*needed):
            notable = list(islice(found.notable(kind), _MOST_LOOKED_AT))
            notable.sort(key=lambda one: (one.reported in (None, one.counted), -one.counted))
            shown = tuple(notable[:MOST_SHOWN])
            kinds.append(OfKind(kind, found.agreement(kind), shown, len(notable)))
    pods = dict(found.pods().most_common()) if watching.knows("pods") else None
    missing = tuple(one for one in wanted if one not in states)
    return Seen(TerminatingPage(pods, tuple(kinds), states, missing), {})

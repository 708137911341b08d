"""The page of terminating pods: counted pods against status.terminatingReplicas."""

from collections.abc import Mapping
from itertools import islice
from typing import Final

import msgspec

from webhook.dashboard.page import PageContext, PageData, check_parameters
from webhook.status.terminating_pods import DEPLOYMENT, REPLICA_SET, Agreement, Count

_NEEDED: Final = {
    DEPLOYMENT: ("deployments.apps", "replicasets.apps", "pods"),
    REPLICA_SET: ("replicasets.apps", "pods"),
}
MOST_SHOWN: Final = 100
_MOST_COMPARED: Final = 5_000


class KindCounts(msgspec.Struct, frozen=True):
    """The Deployments or the ReplicaSets, those that disagree first; `total` have such pods."""

    kind: str
    agreement: Agreement
    objects: tuple[Count, ...]
    total: int


class TerminatingPage(msgspec.Struct, frozen=True):
    """The data of the page; `pods` counts by controller kind, null if pods are not watched."""

    pods: dict[str, int] | None
    kinds: tuple[KindCounts, ...]
    watches: dict[str, bool]
    missing: tuple[str, ...]


async def load(context: PageContext, query: Mapping[str, str], _: float) -> PageData:
    """Return the counts from watched objects."""
    check_parameters(query, ())
    watching = context.sources.watching
    found = watching.terminating
    states = dict(watching.states())
    wanted = dict.fromkeys(one for needed in _NEEDED.values() for one in needed)
    kinds = []
    for kind, needed in _NEEDED.items():
        if watching.knows(*needed):
            notable = list(islice(found.notable(kind), _MOST_COMPARED))
            notable.sort(key=lambda one: (one.reported in (None, one.counted), -one.counted))
            shown = tuple(notable[:MOST_SHOWN])
            kinds.append(KindCounts(kind, found.agreement(kind), shown, len(notable)))
    pods = dict(found.pods().most_common()) if watching.knows("pods") else None
    missing = tuple(one for one in wanted if one not in states)
    return PageData(TerminatingPage(pods, tuple(kinds), states, missing), {})

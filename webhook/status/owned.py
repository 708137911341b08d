"""Which kinds of objects the objects of a kind own, all the way down.

Source: the controllers of kubernetes pkg/controller, each of which sets its ownerReferences.
"""

from collections.abc import Mapping
from typing import Final

from webhook.generation.table import load_rows

Resource = tuple[str, str]
"""Group and resource: `("apps", "deployments")`."""
PODS: Final[Resource] = ("", "pods")
JOBS: Final[Resource] = ("batch", "jobs")
REPLICA_SETS: Final[Resource] = ("apps", "replicasets")
WORKLOADS: Final[Mapping[Resource, tuple[Resource, ...]]] = {
    ("apps", "deployments"): (REPLICA_SETS,),
    REPLICA_SETS: (PODS,),
    ("apps", "statefulsets"): (PODS,),
    ("apps", "daemonsets"): (PODS,),
    ("", "replicationcontrollers"): (PODS,),
    ("batch", "cronjobs"): (JOBS,),
    JOBS: (PODS,),
    PODS: (),
}


def owned_by(resource: Resource) -> set[Resource]:
    """What is below a built-in kind; nothing where it owns nothing that has a status."""
    found: set[Resource] = set()
    pending = [resource]
    while pending:
        below = set(WORKLOADS.get(pending.pop(), ())) - found
        found |= below
        pending += below
    return found


def is_custom(resource: Resource) -> bool:
    """Whether it is none of Kubernetes' own, so that nobody knows what its objects own."""
    return all((row.group, row.resource) != resource for row in load_rows())

"""A fixed list of writes, to one object of every stored resource."""

from collections.abc import Iterable

from tests.controlplane.client import Client
from tests.controlplane.discovery import ServedResource
from tests.differential.samples import Filler, load_samples, notation
from tests.differential.writes import FINALIZER, SUBRESOURCE_WRITES, Target

NAMESPACE = "versions"
_OWN_GENERATION = 7
_CHANGES = 2


def targets(client: Client, served: Iterable[ServedResource]) -> list[Target]:
    """One object of each resource, in the version that the server prefers."""
    preferred: dict[str, ServedResource] = {}
    for resource in served:
        preferred.setdefault(notation(resource), resource)
    return [
        Target(client, resource, load_samples()[name], Filler(number, NAMESPACE), NAMESPACE)
        for number, (name, resource) in enumerate(sorted(preferred.items()))
    ]


def live(target: Target) -> None:
    """From its creation to its end; what a server refuses is no write."""
    target.create(generation=_OWN_GENERATION)
    for change in target.sample.changes[:_CHANGES]:
        target.patch("change", target.filler.fill(change))
    target.patch("metadata", {"metadata": {"labels": {"note": "one"}}})
    target.put("no change", lambda _: None)
    if target.sample.status is not None and "status" in target.resource.subresources:
        target.patch("status", target.filler.fill(target.sample.status), subresource="status")
    for name, write in SUBRESOURCE_WRITES.items():
        if name in target.resource.subresources:
            write(target)
    target.patch("hold", {"metadata": {"finalizers": [FINALIZER]}})
    target.delete({})
    if target.get() is not None:
        target.patch("release", {"metadata": {"finalizers": None}})

"""What is to be followed in a cluster, from what was asked for on the command line."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from webhook.objects.served import Served, UnknownTargetError, find
from webhook.status.asked import Asked


class Wanted(NamedTuple):
    """One object, or with `name` "" those of a kind that a selector takes, "" all of them.

    `namespace` "" is every namespace, or none for a kind without.
    """

    served: Served
    namespace: str
    name: str = ""
    selector: str = ""

    @property
    def chosen(self) -> dict[str, str]:
        """How the API server is asked for no more than that."""
        chosen = {"labelSelector": self.selector} if self.selector else {}
        return chosen | ({"fieldSelector": f"metadata.name={self.name}"} if self.name else {})

    def __str__(self) -> str:
        """`deployments.apps/web in namespace shop`."""
        what = f"{self.served}/{self.name}" if self.name else str(self.served)
        return f"{what} in namespace {self.namespace}" if self.namespace else what


def wanted(
    asked: Iterable[Asked], kinds: Sequence[Served], namespace: str, selector: str = ""
) -> list[Wanted]:
    """Each with the resource that serves it. Raises UnknownTargetError."""
    found = []
    for one in asked:
        served = find(one.kind, kinds)
        if not served.watchable:
            raise UnknownTargetError(f"{served} cannot be watched, so that it has no status")
        within = (one.namespace or namespace) if served.namespaced else ""
        found.append(Wanted(served, within, one.name, selector))
    return found

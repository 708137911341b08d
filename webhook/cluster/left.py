"""What installations have left behind that did not get to their end."""

from typing import Final

from webhook.cluster.applied import listed
from webhook.cluster.rest import Rest
from webhook.install.registering import RUN
from webhook.manifest.kustomize import Document

_KINDS: Final = (
    ("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration"),
    ("v1", "Namespace"),
)


async def leftovers(rest: Rest) -> list[Document]:
    """Trial namespaces and the configurations that checked. Raises RefusedError or UNREACHED."""
    found = []
    for version, kind in _KINDS:
        found += await listed(rest, {"apiVersion": version, "kind": kind}, RUN)
    return [one for one in found if "deletionTimestamp" not in one["metadata"]]

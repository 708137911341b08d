"""Label and field selectors of lists and watches."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from genguard.objects.selectors import EQUALITY, Truth, matches_labels, parse_label_selector
from genguard.testing.preparing import read_path
from genguard.testing.refusals import bad_request
from genguard.testing.resources import Resource

Match = Callable[[Mapping[str, Any]], bool]

_EVERYWHERE: Final = ("metadata.name", "metadata.namespace")
_SELECTABLE: Final[dict[tuple[str, str], tuple[str, ...]]] = {
    ("", "pods"): (
        "spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName",
        "spec.hostNetwork", "status.phase", "status.podIP", "status.nominatedNodeName",
    ),
    ("", "events"): (
        "involvedObject.kind", "involvedObject.namespace", "involvedObject.name",
        "involvedObject.uid", "involvedObject.apiVersion", "involvedObject.resourceVersion",
        "involvedObject.fieldPath", "reason", "reportingComponent", "source", "type",
    ),
    ("", "secrets"): ("type",),
    ("", "namespaces"): ("status.phase",),
    ("", "nodes"): ("spec.unschedulable",),
    ("", "services"): ("spec.clusterIP", "spec.type"),
    ("", "replicationcontrollers"): ("status.replicas",),
    ("apps", "replicasets"): ("status.replicas",),
    ("batch", "jobs"): ("status.successful",),
    ("certificates.k8s.io", "certificatesigningrequests"): ("spec.signerName",),
}  # fmt: skip


def parse_selectors(resource: Resource, labels: str, fields: str) -> Match:
    """Return a function that says whether an object is selected. Raise RequestRefusedError."""
    try:
        wanted = parse_label_selector(labels)
    except ValueError as error:
        raise bad_request(str(error)) from error
    found = [
        _parse_field(resource, clause) for clause in map(str.strip, fields.split(",")) if clause
    ]

    def matches(document: Mapping[str, Any]) -> bool:
        given = document["metadata"].get("labels") or {}
        has_labels = all(requirement.fits(given) for requirement in wanted)
        return has_labels and all(fits(document) for fits in found)

    return matches


def selects(selector: Mapping[str, Any] | None, document: Mapping[str, Any]) -> bool:
    """Whether the LabelSelector of an object, such as a PodDisruptionBudget, selects another."""
    labels = document["metadata"].get("labels") or {}
    return selector is not None and matches_labels(selector, labels, complete=True) is Truth.TRUE


def _parse_field(resource: Resource, text: str) -> Match:
    found = EQUALITY.fullmatch(text)
    if found is None:
        raise bad_request(f"invalid field selector: {text!r}: the form is FIELD=VALUE")
    path, operator, value = found.groups()
    known = (*_EVERYWHERE, *resource.selectable, *_SELECTABLE.get(resource.key, ()))
    if path not in known:
        raise bad_request(f"field label not supported: {path}")

    def is_equal(document: Mapping[str, Any]) -> bool:
        have = read_path(document, path)
        text = str(have).lower() if isinstance(have, bool) else str("" if have is None else have)
        return (text == value) is (operator != "!=")

    return is_equal

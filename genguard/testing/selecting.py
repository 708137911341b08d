"""Label and field selectors of lists and watches."""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from genguard.objects.selectors import Truth, matches_labels
from genguard.testing.preparing import read_path
from genguard.testing.refusals import bad_request
from genguard.testing.resources import Resource

Match = Callable[[Mapping[str, Any]], bool]

_SET: Final = re.compile(r"(\S+)\s+(in|notin)\s+\(([^()]*)\)")
_EQUAL: Final = re.compile(r"([^=!\s]+)\s*(==|=|!=)\s*([^=!\s]*)")
_NAMED: Final = re.compile(r"(!?)\s*([A-Za-z0-9_./-]+)")
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
    wanted = [_parse_label(one.strip()) for one in _split(labels)]
    found = [_parse_field(resource, one.strip()) for one in fields.split(",") if one.strip()]

    def matches(document: Mapping[str, Any]) -> bool:
        given = document["metadata"].get("labels") or {}
        return all(fits(given) for fits in wanted) and all(fits(document) for fits in found)

    return matches


def selects(selector: Mapping[str, Any] | None, document: Mapping[str, Any]) -> bool:
    """Whether the LabelSelector of an object, such as a PodDisruptionBudget, selects another."""
    labels = document["metadata"].get("labels") or {}
    return selector is not None and matches_labels(selector, labels, complete=True) is Truth.TRUE


def _split(selector: str) -> list[str]:
    """Split at the commas that stand outside of parentheses."""
    return [one for one in re.split(r",(?![^()]*\))", selector) if one.strip()]


def _parse_label(text: str) -> Match:
    found = _SET.fullmatch(text)
    if found:
        key, operator, listed = found.groups()
        values = {one.strip() for one in listed.split(",")}
        if operator == "in":
            return lambda labels: key in labels and labels[key] in values
        return lambda labels: labels.get(key) not in values
    found = _EQUAL.fullmatch(text)
    if found:
        key, operator, value = found.groups()
        if operator == "!=":
            return lambda labels: labels.get(key) != value
        return lambda labels: labels.get(key) == value
    found = _NAMED.fullmatch(text)
    if found is None:
        raise bad_request(f"unable to parse requirement: {text!r}")
    absent, key = found.groups()
    return lambda labels: (key in labels) is not bool(absent)


def _parse_field(resource: Resource, text: str) -> Match:
    found = _EQUAL.fullmatch(text)
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

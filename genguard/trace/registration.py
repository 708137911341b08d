"""Build the observers' configurations, and take their views until enough writes were seen.

A configuration matches one object, blocks no write, and expires. With failurePolicy Ignore, a
timeout of 2 seconds and an answer without a patch, writes of the object succeed even if the
observer fails. namespaceSelector and matchConditions keep the API server from calling it for any
other object.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from genguard.admission.review import AdmissionRequest
from genguard.trace.passes import Passes, Tally
from genguard.trace.plan import RUN_LABEL, Plan, Traced
from genguard.trace.report import make_report

EXPIRES: Final = "genguard.io/trace-expires"
"""The RFC 3339 time from which any run may delete the configuration."""
OWNER: Final = "genguard.io/trace-owner"
"""The process that made it, as `webhook.cluster.tracing` writes it."""
_TIMEOUT_SECONDS: Final = 2
_EQUAL: Final = "kubernetes.io/metadata.name"  # the API server puts it on every namespace


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The URL where the API server calls the observers, and their CA bundle (base64 of PEM)."""

    url: str
    ca_bundle: str


def registrations(
    plan: Plan, endpoint: Endpoint, owner: str, expires: datetime
) -> Iterator[dict[str, Any]]:
    """Build the MutatingWebhookConfigurations of a plan."""
    for position, name in plan.observers.items():
        yield {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "MutatingWebhookConfiguration",
            "metadata": {
                "name": name,
                "labels": {RUN_LABEL: plan.run},
                "annotations": {EXPIRES: expires.strftime("%Y-%m-%dT%H:%M:%SZ"), OWNER: owner},
            },
            "webhooks": [_webhook(plan.traced, f"{endpoint.url}/{position}", endpoint.ca_bundle)],
        }


def _webhook(traced: Traced, url: str, ca_bundle: str) -> dict[str, Any]:
    resources = ["/".join(filter(None, (traced.resource, one))) for one in traced.subresources]
    webhook: dict[str, Any] = {
        "name": "observer.trace.genguard.io",
        "clientConfig": {"url": url, "caBundle": ca_bundle},
        "rules": [
            {
                "apiGroups": [traced.group],
                "apiVersions": [traced.version],
                "operations": ["UPDATE"],
                "resources": resources,
            }
        ],
        "matchConditions": [{"name": "this-object", "expression": _condition(traced)}],
        "matchPolicy": "Equivalent",
        "failurePolicy": "Ignore",
        "reinvocationPolicy": "Never",
        "sideEffects": "None",
        "timeoutSeconds": _TIMEOUT_SECONDS,
        "admissionReviewVersions": ["v1"],
    }
    if traced.namespace:
        webhook["namespaceSelector"] = {"matchLabels": {_EQUAL: traced.namespace}}
    return webhook


def _condition(traced: Traced) -> str:
    """The CEL expression for one object. It reads oldObject, since a PUT may omit the uid."""
    parts = {"request.name": traced.name, "oldObject.metadata.uid": traced.uid}
    if traced.namespace:  # reading an absent request.namespace is an error in CEL
        parts["request.namespace"] = traced.namespace
    # A JSON string is a valid CEL string unless it holds surrogate pairs: hence ensure_ascii=False.
    return " && ".join(f"{k} == {json.dumps(v, ensure_ascii=False)}" for k, v in parts.items())


def has_expired(document: dict[str, Any], now: datetime) -> bool:
    """Whether anyone may delete this configuration: its time has passed or cannot be read."""
    text = (document["metadata"].get("annotations") or {}).get(EXPIRES, "")
    try:
        expires = datetime.fromisoformat(text)
    except ValueError:
        return True
    return (expires if expires.tzinfo else expires.replace(tzinfo=UTC)) <= now


class Watch:
    """The state of one trace."""

    def __init__(self, plan: Plan, *, writes: int | None, each: bool) -> None:
        """End after `writes` writes, or never.

        each  the writes are our own dry runs: end after one of each subresource
        """
        self._plan: Final = plan
        self._writes: Final = writes
        self._poked: Final = each
        self._passes: Final = Passes(frozenset(plan.observers))
        self._tally: Final = Tally(plan)

    def see(self, position: int, view: AdmissionRequest) -> None:
        """Take one observer's view of one write. Views of other objects are ignored."""
        wire, traced = view.wire, self._plan.traced
        if (wire.name, wire.namespace) != (traced.name, traced.namespace):
            return
        step = self._passes.see(position, view)
        if step is not None:
            try:
                self._tally.add(step)
            except (msgspec.MsgspecError, RecursionError):
                self._passes.mixed += 1

    @property
    def is_enough(self) -> bool:
        """Whether enough complete writes were seen."""
        whole = self._passes.whole
        if self._writes is not None:
            return whole.total() >= self._writes
        return self._poked and all(whole[one] for one in self._plan.traced.subresources)

    def report(self, changed: list[str], *, values: bool) -> dict[str, Any]:
        """Close the trace and return its report. See make_report for `changed`."""
        self._passes.close()
        return make_report(
            self._plan, self._tally, self._passes, changed, values=values, poked=self._poked
        )

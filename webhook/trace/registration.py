"""What an observer's configuration says: only this object, never in the way, gone in time.

failurePolicy Ignore, a timeout of seconds and an answer without patch: a write of the object goes
on whatever becomes of the observer. Limited by namespaceSelector and matchConditions, so that the
API server calls it for no other object.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from webhook.trace.plan import RUN_LABEL, Plan, Traced

EXPIRES: Final = "genguard.io/trace-expires"
"""When any run may delete it: an RFC 3339 time."""
OWNER: Final = "genguard.io/trace-owner"
"""The process that made it, as `webhook.cluster.tracing` writes it."""
_TIMEOUT_SECONDS: Final = 2
_EQUAL: Final = "kubernetes.io/metadata.name"  # the API server puts it on every namespace


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where the API server finds the observers, and whose signature they have (base64 of PEM)."""

    url: str
    ca_bundle: str


def registrations(
    plan: Plan, endpoint: Endpoint, owner: str, expires: datetime
) -> Iterator[dict[str, Any]]:
    """The MutatingWebhookConfigurations of a plan."""
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
    """In CEL. oldObject is what is stored: a PUT may leave the uid out of object."""
    parts = {"request.name": traced.name, "oldObject.metadata.uid": traced.uid}
    if traced.namespace:  # an empty request.namespace is absent, and to read it is an error
        parts["request.namespace"] = traced.namespace
    # A JSON string is a CEL string, as long as nothing is written as a pair of surrogates.
    return " && ".join(f"{k} == {json.dumps(v, ensure_ascii=False)}" for k, v in parts.items())


def has_expired(document: dict[str, Any], now: datetime) -> bool:
    """Whether a trace's registration may be deleted by anyone; without a readable time it may."""
    text = (document["metadata"].get("annotations") or {}).get(EXPIRES, "")
    try:
        expires = datetime.fromisoformat(text)
    except ValueError:
        return True
    return (expires if expires.tzinfo else expires.replace(tzinfo=UTC)) <= now

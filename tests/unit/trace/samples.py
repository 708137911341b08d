"""Configurations, a traced object and views of it."""

from typing import Any

import msgspec

from genguard.admission.decode import decode_review
from genguard.admission.review import AdmissionRequest
from genguard.objects.served import Served
from genguard.trace.plan import Plan, Traced, make_plan
from tests.reviews import make_review

DEPLOYMENTS = Served(
    "apps", "v1", "deployments", "deployment", "Deployment", ("deploy",),
    namespaced=True, has_status=True, watchable=True,
)  # fmt: skip
WEB = Traced(DEPLOYMENTS, "default", "thing", "uid-1")


def configuration(
    name: str,
    *resources: str,
    hooks: int = 1,
    labels: dict[str, str] | None = None,
    **settings: Any,
) -> dict[str, Any]:
    rule = {
        "apiGroups": ["apps"],
        "apiVersions": ["*"],
        "operations": ["UPDATE"],
        "resources": list(resources or ("deployments", "deployments/status")),
    }
    return {
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": name, "uid": f"uid-{name}", "generation": 1, "labels": labels},
        "webhooks": [
            {"name": f"h{n}.example.org", "rules": [rule], **settings} for n in range(hooks)
        ],
    }


def planned(*names: str) -> Plan:
    return make_plan([configuration(name) for name in names], WEB, "abcd")


def view(
    status: Any = None,
    *,
    old: Any = None,
    subresource: str = "status",
    base: str = "1",
    user: str = "someone",
    **fields: Any,
) -> AdmissionRequest:
    """What an observer sees of a write."""
    stored = {"metadata": {"name": "thing", "uid": "uid-1", "resourceVersion": base}}
    review = make_review(
        new={**stored, "status": status or {}, **fields},
        old={**stored, "status": old or {}},
        subresource=subresource,
        user=user,
        options={"fieldManager": "manager"},
    )
    return decode_review(msgspec.json.encode(review))

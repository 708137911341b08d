"""Events of audit.k8s.io/v1 as an API server writes them."""

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from genguard.audit.log import AuditLog
from genguard.generation.custom import CustomResource
from genguard.review_setup import ReviewOptions, ReviewSetup

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
CULPRIT = ("culprits", "clears.example.org")
CLEARS = {"patch": [{"op": "remove", "path": "/status/observedGeneration"}]}

Json = dict[str, Any]


def annotations(*calls: Mapping[str, Any], patches: bool = True) -> Json:
    """The API server's annotations of calls given as {round, index, hook, mutated, patch}."""
    found: Json = {}
    for call in calls:
        place = f"round_{call.get('round', 0)}_index_{call.get('index', 0)}"
        configuration, webhook = call.get("hook", CULPRIT)
        about = {"configuration": configuration, "webhook": webhook}
        mutation = {**about, "mutated": call.get("mutated", True)}
        found[f"mutation.webhook.admission.k8s.io/{place}"] = json.dumps(mutation)
        if patches and "patch" in call:
            patch = {**about, "patch": call["patch"], "patchType": "JSONPatch"}
            found[f"patch.webhook.admission.k8s.io/{place}"] = json.dumps(patch)
    return found


def event(
    *calls: Mapping[str, Any],
    second: float = 0,
    level: str = "Request",
    verb: str = "update",
    resource: str = "deployments",
    group: str = "apps",
    subresource: str = "status",
    name: str = "web",
    user: str = "controller",
    sent: Any = None,
    stored: Json | None = None,
    query: str = "",
    code: int = 200,
    **more: Any,
) -> Json:
    """One finished request; `sent` and `stored` are left out where the level has none."""
    time = (BEGIN + timedelta(seconds=second)).isoformat(timespec="microseconds")
    reference = {
        "resource": resource, "namespace": "default", "name": name,
        "apiGroup": group, "apiVersion": "v1",
    }  # fmt: skip
    if subresource:
        reference["subresource"] = subresource
    if isinstance(sent, dict) and "uid" in sent.get("metadata", {}):
        reference["uid"] = sent["metadata"]["uid"]
    found: Json = {
        "kind": "Event",
        "apiVersion": "audit.k8s.io/v1",
        "level": level,
        "auditID": "0d0b1f0e-6f8e-4f0e-9d3f-1c7f7a6c2b11",
        "stage": "ResponseComplete",
        "requestURI": f"/apis/apps/v1/namespaces/default/{resource}/{name}{query}",
        "verb": verb,
        "user": {"username": user, "groups": ["system:authenticated"]},
        "sourceIPs": ["127.0.0.1"],
        "userAgent": f"{user}/v1.36.3 (linux/amd64) kubernetes/abcdef",
        "objectRef": reference,
        "responseStatus": {"metadata": {}, "code": code},
        "requestReceivedTimestamp": time.replace("+00:00", "Z"),
        "stageTimestamp": time.replace("+00:00", "Z"),
    }
    if level != "Metadata" and sent is not None:
        found["requestObject"] = sent
    if level == "RequestResponse" and stored is not None:
        found["responseObject"] = stored
    shown = annotations(*calls, patches=level != "Metadata")
    found["annotations"] = {"authorization.k8s.io/decision": "allow", **shown}
    return found | more


def deployment(generation: int = 1, version: int = 1, **fields: Any) -> Json:
    """A Deployment; `fields` are spec and status."""
    metadata = {
        "name": "web", "namespace": "default", "uid": "u-1", "generation": generation,
        "resourceVersion": str(version),
    }  # fmt: skip
    return {"kind": "Deployment", "apiVersion": "apps/v1", "metadata": metadata, **fields}


def statuses(
    count: int,
    *calls: Mapping[str, Any],
    asked: Json | None = None,
    kept: Json | None = None,
    begin: int = 0,
    **more: Any,
) -> list[Json]:
    """Patches of a status, one a second, at the level at which they are examined.

    asked, kept  what is requested besides the number of the write, and what is stored of it
    The first one is not changed on its way: it only shows what is stored before the others.
    """
    made = []
    for number in range(begin, begin + count + 1):
        is_first = number == begin
        asked = {} if asked is None else asked
        stored = {"counted": number, **(asked if is_first or kept is None else kept)}
        about = {
            "second": number,
            "level": "RequestResponse",
            "verb": "patch",
            "sent": {"status": {"counted": number, **asked}},
            "stored": deployment(1, number + 1, status=stored),
        }
        made.append(event(*(() if is_first else calls), **(about | more)))
    return made


def as_lines(events: Iterable[Json]) -> list[bytes]:
    return [json.dumps(one, separators=(",", ":")).encode() + b"\n" for one in events]


def audit_log(definitions: tuple[CustomResource, ...] = ()) -> AuditLog:
    """A log of a server of version 1.36 that serves these custom resources."""
    options = ReviewOptions(server_version="1.36", custom_resources=definitions)
    return AuditLog(ReviewSetup(options).dependencies.engine)

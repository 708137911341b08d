"""Recordings in the repository: trimmed to what matters, compressed, the same bytes each time.

Of each run there are three: the reviews, the API server's audit log, and the registrations.
"""

import gzip
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "recordings"
DEFINITIONS = Path(__file__).with_name("definitions.yaml")
_NOISE = ("managedFields", "selfLink")
_WEBHOOKS = ".webhooks.json"
_READS = ("get", "list", "watch")
_PASSED_OVER = ("events", "leases", "endpoints")
_ROOT_CERTIFICATES = "kube-root-ca.crt"
"""The ConfigMap that each namespace gets."""
_KEPT_OF_EVENT = (
    "kind", "apiVersion", "level", "stage", "requestURI", "verb", "user", "impersonatedUser",
    "userAgent", "objectRef", "responseStatus", "requestObject", "responseObject",
    "requestReceivedTimestamp", "stageTimestamp", "annotations",
)  # fmt: skip
_POD_NAME = "authentication.kubernetes.io/pod-name"
_OWN_ANNOTATION = "kubectl.kubernetes.io/last-applied-configuration"


def recorded() -> list[str]:
    """The names of all scenarios that are recorded."""
    return sorted(path.name.removesuffix(_WEBHOOKS) for path in FOLDER.glob(f"*{_WEBHOOKS}"))


def reviews_of(name: str) -> Path:
    return FOLDER / f"{name}.ndjson.gz"


def audit_of(name: str) -> Path:
    return FOLDER / f"{name}.audit.ndjson.gz"


def webhooks_of(name: str) -> Path:
    return FOLDER / f"{name}{_WEBHOOKS}"


def read_lines(name: str) -> list[bytes]:
    """Each review of a recording, as `genguard serve --record` writes it."""
    return gzip.decompress(reviews_of(name).read_bytes()).splitlines()


def read_audit(name: str) -> list[bytes]:
    """Each event of the audit log of the same run."""
    return gzip.decompress(audit_of(name).read_bytes()).splitlines()


def write(
    name: str, raw: bytes, events: Iterable[dict[str, Any]], configurations: list[dict[str, Any]]
) -> tuple[int, int]:
    """Keeps a run; the sizes of its reviews and of its audit log in bytes."""
    FOLDER.mkdir(exist_ok=True)
    _keep(reviews_of(name), _trimmed(raw))
    _keep(audit_of(name), _trimmed_events(events))
    listed = {"apiVersion": "v1", "kind": "List", "items": list(map(_registration, configurations))}
    webhooks_of(name).write_text(json.dumps(listed, indent=1) + "\n")
    return reviews_of(name).stat().st_size, audit_of(name).stat().st_size


def _keep(path: Path, lines: Iterable[str]) -> None:
    text = "".join(f"{line}\n" for line in lines)
    path.write_bytes(gzip.compress(text.encode(), compresslevel=9, mtime=0))


def _trimmed(raw: bytes) -> Iterator[str]:
    for line in raw.splitlines():
        one = json.loads(line)
        request = one["review"]["request"]
        # Probes by which the test saw that a registration is in force.
        if request["resource"]["resource"] == "configmaps" and request.get("dryRun"):
            continue
        request["userInfo"] = _user(request["userInfo"])
        for side in ("object", "oldObject"):
            _without_noise(request.get(side))
        yield json.dumps(one, separators=(",", ":"))


def _trimmed_events(events: Iterable[dict[str, Any]]) -> Iterator[str]:
    """The writes of a scenario: no reads, no tokens, nothing of the machine."""
    for event in events:
        about = event["objectRef"]
        resource, subresource = about["resource"], about.get("subresource")
        if event["verb"] in _READS or resource in _PASSED_OVER or subresource == "token":
            continue
        if resource == "configmaps" and "dryRun" in event["requestURI"]:
            continue  # a probe, as above
        if about.get("name") == _ROOT_CERTIFICATES:
            continue
        one = {key: event[key] for key in _KEPT_OF_EVENT if key in event}
        for key in ("user", "impersonatedUser"):
            if key in one:
                one[key] = _user(one[key])
        one["userAgent"] = one.get("userAgent", "").partition("/")[0]
        for key in ("requestObject", "responseObject"):
            _without_noise(one.get(key))
        yield json.dumps(one, separators=(",", ":"))


def _user(found: dict[str, Any]) -> dict[str, Any]:
    """The name, and the pod where one is known."""
    extra = {key: found["extra"][key] for key in (_POD_NAME,) if key in found.get("extra", {})}
    return {"username": found["username"], **({"extra": extra} if extra else {})}


def _without_noise(found: Any) -> None:
    metadata = found.get("metadata") if isinstance(found, dict) else None
    if isinstance(metadata, dict):
        for key in _NOISE:
            metadata.pop(key, None)
        (metadata.get("annotations") or {}).pop(_OWN_ANNOTATION, None)


def _registration(found: dict[str, Any]) -> dict[str, Any]:
    kept = {
        "apiVersion": found["apiVersion"],
        "kind": found["kind"],
        "metadata": {
            key: found["metadata"][key]
            for key in ("name", "creationTimestamp")
            if key in found["metadata"]
        },
    }
    if "webhooks" not in found:
        return {**kept, "spec": found["spec"]}
    hooks = []
    for hook in found["webhooks"]:
        client = {"url": hook["clientConfig"]["url"]}
        hooks.append({**hook, "clientConfig": client})
    return {**kept, "webhooks": hooks}

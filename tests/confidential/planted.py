"""Recorded reviews with canaries planted wherever an object holds what is nobody else's business.

A canary is a word and no sentence: what is told of an object at all is told in short words, so one
that got through would be seen. Its end names the place it was planted in. What examination goes by
is left as it was (_MEANT), so that every rule and detector acts as it did in the recording.
"""

import json
import re
import time
from collections.abc import Iterator, Mapping
from typing import Any

from tests.cases_loader import read_beside
from tests.e2e.culprits import deployment
from tests.scenarios.recording import read_audit, read_lines

CANARY = "canary7f3a"
"""Nowhere to be found in what is told."""
NAMED = "named7f3a"
"""In place of names by which items of a list are told apart: of containers, variables, ports."""
RESTORED = "status.restored"
"""A field for `--restore`, which another webhook clears."""
LOST = f"{CANARY}StatusLost"
"""Its value."""
LOOPS = frozenset(
    {
        "/status/restored",
        "/spec/containers/0/env/1/value",
        "/data/password",
        "/metadata/annotations/example.org~1applied",
    }
)
"""Paths that findings must name, for those are loops of this module."""
APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
"""An annotation that holds a whole object. No loop is about it; one is about OTHER_APPLIED."""
OTHER_APPLIED = "example.org/applied"
HEADERS = {
    "Authorization": f"Bearer {CANARY}Token",
    "Cookie": f"session={CANARY}Cookie",
    "User-Agent": f"{CANARY}Agent/1.0",
    "X-Remote-Extra-Token": f"{CANARY}Remote",
    "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
}
"""Of each request: a client may send more than is asked of it. The last has its span exported."""
LAST = "secrets"
"""The resource of the last reviews."""
SCENES = tuple(read_beside(__file__, "scenes.yaml"))
WHERE = "conditions-cleared"
"""The namespace of the loops of this module."""
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_MEANT = frozenset({"type", "status", "reason", "phase", "terminationGracePeriodSeconds"})
"""Fields whose words are compared with words that Kubernetes defines."""
_PAUSE = 0.05
_NAMES = frozenset({"name", "uid"})


def reviews() -> Iterator[tuple[str, dict[str, Any]]]:
    """(phase, AdmissionReview) of every scene, of a field to restore, of a fight over a Secret."""
    for scene in SCENES:
        for line in read_lines(scene):
            one = json.loads(line)
            # Attempts at once would count as writes at once.
            time.sleep(_PAUSE if "refused" in scene else 0.0)
            yield one["phase"], planted(one["review"])
    yield from _own_loops()


def audit_log() -> Iterator[bytes]:
    """The events of the same scenes, planted in the same way."""
    for scene in SCENES:
        for line in read_audit(scene):
            yield json.dumps(_planted_event(json.loads(line))).encode() + b"\n"


def _planted_event(event: dict[str, Any]) -> dict[str, Any]:
    user = {**event["user"], "groups": [f"{CANARY}Group"], "extra": {"key": [f"{CANARY}Extra"]}}
    sides = ("requestObject", "responseObject")
    objects = {side: _planted_side(event[side]) for side in sides if side in event}
    texts = {
        key: _planted_patch(text) if key.startswith("patch.webhook") else text
        for key, text in event.get("annotations", {}).items()
    }
    uri = f"{event['requestURI'].partition('?')[0]}?token={CANARY}Query"
    return {**event, **objects, "user": user, "annotations": texts, "requestURI": uri}


def _planted_side(found: Any) -> Any:
    """An object, a part of it, or a JSON Patch."""
    if isinstance(found, list):
        return [_planted_operation(one) for one in found]
    if found.get("kind") == "Status":
        return {**found, "message": f"{CANARY}Message"}
    if "metadata" in found:
        return planted_object(found)
    return {key: _planted(value, key.capitalize()) for key, value in found.items()}


def _planted_patch(text: str) -> str:
    found = json.loads(text)
    return json.dumps({**found, "patch": [_planted_operation(one) for one in found["patch"]]})


def _planted_operation(operation: dict[str, Any]) -> dict[str, Any]:
    if "value" not in operation:
        return operation
    _, where, *deeper = operation["path"].split("/")
    if where == "metadata" and deeper:
        where, *deeper = deeper
    value = _planted(operation["value"], where.capitalize(), deeper[-1] if deeper else "")
    return {**operation, "value": value}


def planted(review: dict[str, Any]) -> dict[str, Any]:
    """The review, with canaries in its objects and in what is said of its author."""
    request = review["request"]
    user = {
        **request["userInfo"],
        "groups": [f"{CANARY}Group"],
        "extra": {f"{CANARY}ExtraKey": [f"{CANARY}Extra"]},
    }
    objects = {
        side: request[side] and planted_object(request[side]) for side in ("object", "oldObject")
    }
    return {**review, "request": {**request, **objects, "userInfo": user}}


def existing() -> dict[str, dict[str, Any]]:
    """Objects that an API server takes, by collection: to watch, and two of which loops are told.

    Findings of objects that are not there alert nobody (webhook/alerts/pipeline.py).
    """
    kept = {"labels": {f"{CANARY}Key": f"{CANARY}Label"}, "annotations": {"a": f"{CANARY}Note"}}
    app = deployment()
    (container,) = app["spec"]["template"]["spec"]["containers"]
    container["env"] = [{"name": "PASSWORD", "value": f"{CANARY}Env"}]
    one = {"name": "one", **kept}
    core, apps = (f"/{api}/namespaces/{WHERE}" for api in ("api/v1", "apis/apps/v1"))
    return {
        f"{core}/configmaps": {"metadata": one, "data": {"password": f"{CANARY}Data"}},
        f"{core}/secrets": {"metadata": one, "stringData": {"password": f"{CANARY}Data"}},
        f"{core}/services": {"metadata": one, "spec": {"ports": [{"port": 80}]}},
        f"{apps}/deployments": {**app, "metadata": {**app["metadata"], **kept}},
    }


def planted_object(found: Mapping[str, Any]) -> dict[str, Any]:
    """An object in which every text that is nobody's business is a canary."""
    metadata = found["metadata"]
    changed = {
        key: _planted(value, key.capitalize())
        for key, value in found.items()
        if key not in ("apiVersion", "kind", "metadata")
    }
    maps = {
        key: {
            **_planted(metadata.get(key) or {}, key.capitalize()),
            f"{CANARY}{key.capitalize()}Key": f"{CANARY}{key.capitalize()}",
        }
        for key in ("labels", "annotations")
    }
    held = [f"{CANARY}Finalizers{name}" for name in metadata.get("finalizers", ())]
    lists = {"finalizers": held} if held else {}
    manager = {
        "manager": "deployer",
        "operation": "Update",
        "fieldsType": "FieldsV1",
        "fieldsV1": {f"f:{CANARY}FieldsKey": {"v:": f"{CANARY}Fields"}},
    }
    return {
        **found,
        **changed,
        "metadata": {**metadata, **maps, **lists, "managedFields": [manager]},
    }


def _planted(value: Any, where: str, key: str = "") -> Any:
    if isinstance(value, dict):
        return {name: _planted(child, where, name) for name, child in value.items()}
    if isinstance(value, list):
        return [_planted(child, where, key) for child in value]
    if not isinstance(value, str) or key in _MEANT or _TIME.fullmatch(value):
        return value
    return f"{NAMED}{value}" if key in _NAMES else f"{CANARY}{where}{value}"


def _own_loops() -> Iterator[tuple[str, dict[str, Any]]]:
    """Webhooks clear a field that `--restore` names, and put back old variables and passwords.

    Nothing registers genguard for Secrets; somebody may.
    """
    phases = (("intent", "New"), ("mutate", "Old"), ("outcome", "Old"))
    for number in range(30):
        for phase, value in (("intent", "Lost"), ("mutate", ""), ("outcome", "")):
            yield phase, planted(_status(number, value))
    for number in range(30):
        for phase, value in phases:
            yield phase, planted(_variable(number, value))
    for number in range(30):
        for phase, value in phases:
            yield phase, planted(_applied(number, value))
    for number in range(30):
        for phase, value in phases:
            yield phase, planted(_secret(number, value))


def _request(kind: str, resource: str, number: int, user: str) -> dict[str, Any]:
    return {
        "uid": f"fight-{resource}-{number}",
        "kind": {"group": "", "version": "v1", "kind": kind},
        "resource": {"group": "", "version": "v1", "resource": resource},
        "name": "one",
        "namespace": WHERE,
        "operation": "UPDATE",
        "userInfo": {"username": user},
        "options": {"kind": "UpdateOptions", "apiVersion": "meta.k8s.io/v1"},
    }


def _object(kind: str, number: int, **fields: Any) -> dict[str, Any]:
    named = {"name": "one", "namespace": WHERE, "generation": 1}
    metadata = {**named, "resourceVersion": str(number)}
    return {"apiVersion": "v1", "kind": kind, "metadata": metadata, **fields}


def _variable(number: int, value: str) -> dict[str, Any]:
    request = _request("Pod", "pods", number, "alice")
    for side, content in (("oldObject", "Old"), ("object", value)):
        variables = [{"name": "A", "value": "same"}, {"name": "B", "value": content}]
        containers = [{"name": "one", "env": variables}, {"name": "two", "env": variables}]
        request[side] = _object("Pod", number, spec={"containers": containers})
    return _review(request)


def _secret(number: int, password: str) -> dict[str, Any]:
    request = _request("Secret", "secrets", number, "alice")
    for side, value in (("oldObject", "Old"), ("object", password)):
        content = {"password": value}
        request[side] = _object("Secret", number, data=content, stringData=content)
    return _review(request)


def _applied(number: int, password: str) -> dict[str, Any]:
    """A ConfigMap whose annotations hold objects, which another webhook puts back."""
    request = _request("ConfigMap", "configmaps", number, "alice")
    for side, value in (("oldObject", "Old"), ("object", password)):
        request[side] = found = _object("ConfigMap", number)
        content = {"password": f"{CANARY}Applied{value}", "url": f"https://{CANARY}User:{value}@db"}
        applied = json.dumps({"kind": "Secret", "stringData": content})
        found["metadata"]["annotations"] = {APPLIED: applied, OTHER_APPLIED: applied}
    return _review(request)


def _status(number: int, value: str) -> dict[str, Any]:
    field = RESTORED.removeprefix("status.")
    request = _request("Service", "services", number, "controller") | {"subResource": "status"}
    request["oldObject"] = _object("Service", number, status={})
    request["object"] = _object("Service", number, status={field: value} if value else {})
    return _review(request)


def _review(request: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}

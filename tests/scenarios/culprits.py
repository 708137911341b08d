"""Patches that webhooks of scenarios answer with: guilty ones and well-behaved ones."""

import itertools
from collections.abc import Callable, Mapping
from typing import Any

from genguard.objects.fields import to_pointer
from tests.controlplane.webhook_listener import Patch, no_patch
from tests.e2e.culprits import removes_observed_generation, zeroes_observed_generation

__all__ = ["no_patch", "removes_observed_generation", "zeroes_observed_generation"]

Request = Mapping[str, Any]


def removes_status_field(name: str) -> Callable[[Request], Patch]:
    """Round-trips the status through a type that does not know one field."""

    def patch(request: Request) -> Patch:
        if name not in _status(request):
            return ()
        return [{"op": "remove", "path": f"/status/{name}"}]

    return patch


def removes_spec_field(name: str) -> Callable[[Request], Patch]:
    """Round-trips updates through a type that does not know one field of spec."""

    def patch(request: Request) -> Patch:
        if request["operation"] != "UPDATE" or name not in request["object"]["spec"]:
            return ()
        return [{"op": "remove", "path": f"/spec/{name}"}]

    return patch


def makes_invalid(request: Request) -> Patch:
    """Counts in text what the API server counts in numbers."""
    if request["operation"] != "UPDATE":
        return ()
    return [{"op": "add", "path": "/spec/minReadySeconds", "value": -1}]


def encodes_pods_without(*names: str) -> Callable[[Request], Patch]:
    """Round-trips what is created through a type whose containers lack fields."""

    def patch(request: Request) -> Patch:
        spec = request["object"]["spec"] if request["operation"] == "CREATE" else {}
        return [
            {"op": "remove", "path": to_pointer(("spec", key, index, name))}
            for key in ("initContainers", "containers")
            for index, one in enumerate(spec.get(key) or ())
            for name in names
            if name in one
        ]

    return patch


def mirrors_images(request: Request) -> Patch:
    """Takes the image of each new pod from another registry."""
    if request["operation"] != "CREATE":
        return ()
    path, image = "/spec/containers/0/image", "mirror.example.org/image:1"
    return [{"op": "replace", "path": path, "value": image}]


def clears_observed_generation_of_conditions(request: Request) -> Patch:
    """Knows conditions as they were before they had an observedGeneration."""
    return [
        {"op": "remove", "path": f"/status/conditions/{index}/observedGeneration"}
        for index, one in enumerate(_status(request).get("conditions", ()))
        if "observedGeneration" in one
    ]


def sets_status_field(name: str, value: Any) -> Callable[[Request], Patch]:
    """Writes its own opinion over a field of the status."""

    def patch(request: Request) -> Patch:
        if name not in _status(request):
            return ()
        return [{"op": "replace", "path": f"/status/{name}", "value": value}]

    return patch


def removes_status(request: Request) -> Patch:
    """Takes the whole status away."""
    return [{"op": "remove", "path": "/status"}] if _status(request) else ()


def sorts_environment(request: Request) -> Patch:
    """Puts the variables of each container in the order of their names."""
    found = []
    template = request["object"]["spec"]["template"]["spec"]
    for number, container in enumerate(template["containers"]):
        env = container.get("env") or []
        ordered = sorted(env, key=lambda one: one["name"])
        if env != ordered:
            path = f"/spec/template/spec/containers/{number}/env"
            found.append({"op": "replace", "path": path, "value": ordered})
    return found


def once(patch: Callable[[Request], Patch]) -> Callable[[Request], Patch]:
    """Acts on the first request that it has anything to say to, and on no other."""
    acted: list[Patch] = []

    def first(request: Request) -> Patch:
        answer = patch(request) if not acted else ()
        if answer:
            acted.append(answer)
        return answer

    return first


def stamps_pod_template(request: Request) -> Patch:
    """Writes a new value into the pod template each time it is asked, as configuration hashers do
    that take in a time."""
    if request["operation"] != "UPDATE":
        return ()
    metadata = request["object"]["spec"]["template"].get("metadata") or {}
    stamp = request["uid"]
    if "annotations" not in metadata:
        path, value = "/spec/template/metadata/annotations", {"stamped": stamp}
        return [{"op": "add", "path": path, "value": value}]
    return [{"op": "add", "path": "/spec/template/metadata/annotations/stamped", "value": stamp}]


def stamps_annotation(request: Request) -> Patch:
    """Marks each write as seen."""
    if request["operation"] != "UPDATE":
        return ()
    annotations = request["object"]["metadata"].get("annotations") or {}
    value = {**annotations, "seen": request["uid"]}
    return [{"op": "add", "path": "/metadata/annotations", "value": value}]


def takes_label_away(name: str) -> Callable[[Request], Patch]:
    """Does not want one label."""

    def patch(request: Request) -> Patch:
        if name not in _of_metadata(request, "labels"):
            return ()
        return [{"op": "remove", "path": to_pointer(("metadata", "labels", name))}]

    return patch


def takes_finalizers_away(request: Request) -> Patch:
    """Wants no object to wait for anybody."""
    if not _of_metadata(request, "finalizers"):
        return ()
    return [{"op": "remove", "path": "/metadata/finalizers"}]


def sets_annotation(name: str, value: str) -> Callable[[Request], Patch]:
    """Writes its own opinion over an annotation, where there is one."""

    def patch(request: Request) -> Patch:
        if _of_metadata(request, "annotations").get(name, value) == value:
            return ()
        path = to_pointer(("metadata", "annotations", name))
        return [{"op": "replace", "path": path, "value": value}]

    return patch


def lowers_annotation(name: str) -> Callable[[Request], Patch]:
    """Writes a value in lower case."""

    def patch(request: Request) -> Patch:
        annotations = _of_metadata(request, "annotations")
        value = annotations.get(f"example.org/{name}", "")
        if value == value.lower():
            return ()
        return _with_annotation(annotations, f"example.org/{name}", value.lower())

    return patch


def appends_to_annotation(name: str) -> Callable[[Request], Patch]:
    """Writes one more entry each time that it is called."""

    def patch(request: Request) -> Patch:
        annotations = _of_metadata(request, "annotations")
        return _with_annotation(annotations, name, annotations.get(name, "") + "called;")

    return patch


def copies_annotation(name: str, copy: str) -> Callable[[Request], Patch]:
    """Copies an annotation, and so gives the API server a reason to reinvoke who has set it."""

    def patch(request: Request) -> Patch:
        annotations = _of_metadata(request, "annotations")
        if annotations.get(name) == annotations.get(copy):
            return ()
        return _with_annotation(annotations, copy, annotations[name])

    return patch


def writes_down_who(request: Request) -> Patch:
    """Keeps the user who wrote last."""
    annotations = _of_metadata(request, "annotations")
    user = request["userInfo"]["username"]
    return () if annotations.get("by") == user else _with_annotation(annotations, "by", user)


def writes_down_who_in_status(request: Request) -> Patch:
    """Adds the user to each status that does not name one."""
    status, user = _status(request), request["userInfo"]["username"]
    if not status or "userInfo" in status:
        return ()
    return [{"op": "add", "path": "/status/userInfo", "value": {"username": user}}]


def _with_annotation(annotations: Mapping[str, str], name: str, value: str) -> Patch:
    changed = {**annotations, name: value}
    return [{"op": "add", "path": "/metadata/annotations", "value": changed}]


def _of_metadata(request: Request, name: str) -> Any:
    if request["operation"] != "UPDATE":
        return {}
    return request["object"]["metadata"].get(name) or {}


def pins_replicas(request: Request) -> Patch:
    """Knows better how many there should be."""
    if request["operation"] != "UPDATE" or request["object"]["spec"].get("replicas") == 2:
        return ()
    return [{"op": "replace", "path": "/spec/replicas", "value": 2}]


def counts_calls() -> Callable[[Request], Patch]:
    """Writes how often it was called: never the same twice."""
    numbers = itertools.count(1)

    def patch(request: Request) -> Patch:
        del request
        return [{"op": "add", "path": "/spec/called", "value": next(numbers)}]

    return patch


def follows_calls(request: Request) -> Patch:
    """Copies what the counter wrote, and so gives the API server a reason to reinvoke it."""
    spec = request["object"].get("spec") or {}
    if spec.get("copied") == spec.get("called"):
        return ()
    return [{"op": "add", "path": "/spec/copied", "value": spec.get("called")}]


def labels(request: Request) -> Patch:
    """Adds a label that is not there."""
    metadata = (request["object"] or {}).get("metadata", {})
    if request["operation"] not in ("CREATE", "UPDATE") or "team" in (metadata.get("labels") or {}):
        return ()
    if not metadata.get("labels"):
        return [{"op": "add", "path": "/metadata/labels", "value": {"team": "a"}}]
    return [{"op": "add", "path": "/metadata/labels/team", "value": "a"}]


def defaults_a_field(request: Request) -> Patch:
    """Fills in what was left out."""
    if request["operation"] not in ("CREATE", "UPDATE") or "colour" in request["object"]["spec"]:
        return ()
    return [{"op": "add", "path": "/spec/colour", "value": "green"}]


def injects_a_sidecar(request: Request) -> Patch:
    """Adds a container to the template where it is missing."""
    if request["operation"] not in ("CREATE", "UPDATE"):
        return ()
    containers = request["object"]["spec"]["template"]["spec"]["containers"]
    if any(one["name"] == "sidecar" for one in containers):
        return ()
    value = {"name": "sidecar", "image": "image:1"}
    return [{"op": "add", "path": "/spec/template/spec/containers/-", "value": value}]


def _status(request: Request) -> Mapping[str, Any]:
    found = (request["object"] or {}).get("status") if request["operation"] == "UPDATE" else None
    return found if isinstance(found, dict) else {}

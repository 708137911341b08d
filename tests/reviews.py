"""The one builder of AdmissionReviews, and the one way to read an answer."""

import itertools
import json
from base64 import b64decode
from collections.abc import Iterable, Iterator
from typing import Any

import jsonpatch

from genguard.admission.review import Phase
from genguard.generation import CustomResource
from genguard.generation.table import load_rows
from genguard.objects.intended import CONDITIONS, OWN, parse_restored
from genguard.review import Dependencies, Reply, review
from genguard.review_setup import GenerationPatch, ReviewOptions, ReviewSetup
from tests.contract_of_answers import violations

_uids = itertools.count(1)

# resource → (group, version, plural, kind), as kubectl writes the resource
KINDS = {
    "pods": ("", "v1", "pods", "Pod"),
    "configmaps": ("", "v1", "configmaps", "ConfigMap"),
    "services": ("", "v1", "services", "Service"),
    "secrets": ("", "v1", "secrets", "Secret"),
    "deployments": ("apps", "v1", "deployments", "Deployment"),
    "replicasets": ("apps", "v1", "replicasets", "ReplicaSet"),
    "jobs": ("batch", "v1", "jobs", "Job"),
    "widgets": ("example.org", "v1", "widgets", "Widget"),
    "gadgets": ("example.org", "v1", "gadgets", "Gadget"),
}


def make_review(
    operation: str = "UPDATE",
    resource: str = "deployments",
    new: dict[str, Any] | None = None,
    old: dict[str, Any] | None = None,
    *,
    subresource: str = "",
    name: str = "thing",
    user: str = "someone",
    pod: str = "",
    dry_run: bool = False,
    options: dict[str, Any] | None = None,
    version: str = "admission.k8s.io/v1",
) -> dict[str, Any]:
    """An AdmissionReview as kube-apiserver sends it; objects get the metadata it always shows.

    `resource` is one of KINDS, or any other as kubectl writes it: `ingresses.networking.k8s.io`.
    """
    group, api_version, plural, kind = KINDS.get(resource) or _kind(resource)
    gvk = {"group": group, "version": api_version, "kind": kind}
    gvr = {"group": group, "version": api_version, "resource": plural}
    request: dict[str, Any] = {
        "uid": f"uid-{next(_uids)}",
        "kind": gvk,
        "resource": gvr,
        "requestKind": gvk,
        "requestResource": gvr,
        "name": name,
        "namespace": "default",
        "operation": operation,
        "userInfo": {"username": user, "groups": ["system:authenticated"]},
        "object": _complete(new, group, api_version, kind),
        "oldObject": _complete(old, group, api_version, kind),
        "dryRun": dry_run,
        "options": options,
    }
    if pod:
        request["userInfo"]["extra"] = {"authentication.kubernetes.io/pod-name": [pod]}
    if subresource:
        request["subResource"] = request["requestSubResource"] = subresource
    return {"kind": "AdmissionReview", "apiVersion": version, "request": request}


def clobbered(**arguments: Any) -> dict[str, Any]:
    """A status write that lost what was stored: preserve_observed_generation acts."""
    return make_review(
        new={"status": {}}, old={"status": {"observedGeneration": 3}}, subresource="status",
        **arguments,
    )  # fmt: skip


def counted() -> dict[str, Any]:
    """A write that moves generation from 1 to 2."""
    return make_review(
        new={"metadata": {"generation": 1}, "spec": {"replicas": 2}},
        old={"metadata": {"generation": 1}, "spec": {"replicas": 1}},
    )


def _kind(resource: str) -> tuple[str, str, str, str]:
    plural, _, group = resource.partition(".")
    for row in load_rows():
        if (row.group, row.resource) == (group, plural):
            return group, row.versions[0], plural, row.kind
    return group, "v1", plural, plural.removesuffix("s").capitalize()


def _complete(
    document: dict[str, Any] | None, group: str, version: str, kind: str
) -> dict[str, Any] | None:
    if document is None:
        return None
    named = {"name": "thing", "namespace": "default", "uid": "object-1", "resourceVersion": "7"}
    api_version = f"{group}/{version}" if group else version
    metadata = {**named, **document.get("metadata", {})}
    return {"apiVersion": api_version, "kind": kind, **document, "metadata": metadata}


def make_dependencies(
    *,
    audit_only: bool = False,
    generation_patch: GenerationPatch = GenerationPatch.NEVER,
    custom: Iterable[CustomResource] = (),
    server_version: str = "1.36",
    restore: str = f"{OWN},{CONDITIONS}",
    flip: tuple[str, ...] = (),
) -> Dependencies:
    """What reviews are examined with; generation is not patched unless a test asks for it."""
    options = ReviewOptions(
        audit_only, generation_patch, server_version, tuple(custom), parse_restored(restore), flip
    )
    return ReviewSetup(options).dependencies


class Answer:
    """A reply, checked against the API server's contract when made."""

    def __init__(self, asked: dict[str, Any], reply: Reply, phase: Phase) -> None:
        self.asked = asked
        self.reply = reply
        self.result = reply.result
        self.document = json.loads(reply.body)
        assert reply.status == 200, self.document
        assert violations(asked, self.document, phase) == []

    @property
    def patch(self) -> list[dict[str, Any]]:
        """The operations; empty without a patch."""
        patch = self.document["response"].get("patch")
        return json.loads(b64decode(patch)) if patch else []

    @property
    def annotations(self) -> dict[str, str]:
        return self.document["response"].get("auditAnnotations", {})

    @property
    def object(self) -> dict[str, Any]:
        """The object after the patch, as jsonpatch, the independent examine, applies it."""
        return jsonpatch.apply_patch(self.asked["request"]["object"], self.patch)


def ask(
    asked: dict[str, Any],
    dependencies: Dependencies | None = None,
    *,
    phase: Phase = Phase.MUTATE,
    now: float = 0.0,
) -> Answer:
    """Send a review through the pipeline."""
    reply = review(json.dumps(asked).encode(), phase, dependencies or make_dependencies(), now)
    return Answer(asked, reply, phase)


def changes(answer: Answer) -> dict[str, Any]:
    """What the patch makes of the object: pointer → new value; nothing is ever removed."""
    before = answer.asked["request"]["object"]
    return {} if before is None else dict(_changes("", before, answer.object))


def _changes(pointer: str, before: Any, after: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(before, dict) and isinstance(after, dict):
        assert before.keys() <= after.keys(), f"removed below {pointer}"
        for key, value in after.items():
            path = f"{pointer}/{key.replace('~', '~0').replace('/', '~1')}"
            if key not in before:
                yield path, value
            else:
                yield from _changes(path, before[key], value)
    elif isinstance(before, list) and isinstance(after, list):
        if not before and after:
            yield pointer, after
            return
        assert len(before) <= len(after), f"removed from the list at {pointer}"
        for index, (left, right) in enumerate(zip(before, after, strict=False)):
            yield from _changes(f"{pointer}/{index}", left, right)
        for index in range(len(before), len(after)):
            yield f"{pointer}/{index}", after[index]
    elif type(before) is not type(after) or before != after:
        yield pointer, after

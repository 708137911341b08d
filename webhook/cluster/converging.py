"""Dry runs of a manifest in a real cluster, and calls of its webhooks one by one.

Nothing is stored. A webhook is called only if it declares that dry runs have no side effects.

Reads   webhook configurations and policies, the object of the manifest, its namespace, the
        HorizontalPodAutoscalers beside it, and the schema of its kind
Calls   webhooks of a Service through the API server, which knows the way into the cluster; those
        of a URL directly
"""

import asyncio
import base64
import binascii
import ssl
import time
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import Any, Final, NamedTuple, TypeVar
from urllib.parse import quote

import aiohttp
import msgspec

from genguard.admission.decode import UndecodableReviewError, decode_review
from genguard.admission.matching import (
    Conditions,
    Matched,
    Registration,
    matched,
    read_configurations,
    read_labels,
    read_policies,
)
from genguard.admission.review import AdmissionRequest
from genguard.blame.report import Seen
from genguard.converge.chain import Document, Link, NotCalledError
from genguard.converge.contest import Contested, ConvergeResult
from genguard.converge.creation import PODS, pod_of
from genguard.converge.fields import overlay
from genguard.converge.ignoring import Ignore, without_ignored
from genguard.converge.owners import scaled_by
from genguard.converge.prepared import Applier, Logs, Prepared, Refused, known_contests, object_of
from genguard.converge.rounds import Asked, RefusedApplyError, converge, taken_from_pods
from genguard.converge.status_samples import status_samples
from genguard.detection.finding import FoundObject
from genguard.objects.fields import ABSENT, get
from genguard.objects.selectors import Truth, every
from genguard.objects.served import Served
from webhook.cluster.cluster_watch import ADMISSION, POLICY_PLURALS
from webhook.cluster.discovery import path_if_served
from webhook.cluster.rest import APPLY_PATCH, UNREACHED, RefusedError, Rest, if_there, unreached
from webhook.cluster.tracing import configurations

_SAFE: Final = ("None", "NoneOnDryRun")
"""Values of sideEffects with which the API server sends dry runs to a webhook."""
_NO_DRY_RUN: Final = "does not support dry run"
_NO_SIDE_EFFECTS: Final = "it does not declare that dry runs have no side effects"
_OTHER_VERSION: Final = "it asks for another version of the kind, which only an API server makes"
_OLD_REVIEWS: Final = "it understands no AdmissionReview of version v1"
_DEFAULT_PORT: Final = 443
_NEXT_SECOND: Final = 1.1
_AUTOSCALER: Final = "HorizontalPodAutoscaler"
_AUTOSCALERS: Final = "/apis/autoscaling/v2/namespaces/{}/horizontalpodautoscalers"
_MANAGER: Final = "genguard-converge"
_PUBLISHED_SECONDS: Final = 5.0
_EVERY_SECONDS: Final = 0.1
_AT_ONCE: Final = 8
"""Objects that are looked at side by side."""
T = TypeVar("T")


class Admission(NamedTuple):
    """Who acts on writes in a cluster, and how they are asked.

    acting      the client of the user who applies
    registered  the mutating webhooks by name, in the order of their calls
    hooks       the same as they are registered
    user        who asks, as userInfo of a review
    """

    rest: Rest
    acting: Rest
    conditions: Conditions
    registered: Mapping[str, Registration]
    hooks: Mapping[str, Mapping[str, Any]]
    policies: Sequence[Registration]
    user: Mapping[str, Any]


async def read_admission(rest: Rest, acting: Rest, conditions: Conditions) -> Admission:
    """Read webhooks and policies, and who `acting` is. Raises RefusedError or UNREACHED."""
    documents = await configurations(rest)
    hooks = {
        f"{document['metadata']['name']}/{hook.get('name', '')}": hook
        for document in documents
        for hook in document.get("webhooks") or ()
    }
    others = {
        registration.name: registration
        for registration in read_configurations(documents)
        if not registration.phase
    }
    found = []
    for plural in POLICY_PLURALS.values():  # an API server may have none
        path = await path_if_served(rest, f"{plural}.{ADMISSION}")
        if path is not None:
            found += await rest.list_all(path)
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    answer = await acting.call("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", review)
    user = answer["status"]["userInfo"]
    return Admission(rest, acting, conditions, others, hooks, read_policies(found), user)


@dataclass(slots=True)
class DryRuns:
    """A cluster as genguard.converge.rounds asks it, for one object of a manifest.

    manager  the field manager
    """

    admission: Admission
    served: Served
    namespace_labels: dict[str, str]
    manager: str
    left_out: dict[str, str] = field(default_factory=dict)

    @property
    def links(self) -> Sequence[Link]:
        """See Cluster.links."""
        if self.served.group == ADMISSION:
            return ()  # webhooks are never called for it: one could lock out all others
        webhooks = self.admission.registered.values()
        return [Link(webhook.name, webhook.reinvoked) for webhook in webhooks]

    @property
    def _is_namespace(self) -> bool:
        return self.served.of == ("", "namespaces")

    def path(self, manifest: Document) -> str:
        """Return where the API server has the object."""
        # Nothing of a manifest may become a part of the query, which says that nothing is stored.
        metadata = manifest["metadata"]
        return self.served.object_path(metadata.get("namespace", ""), metadata["name"])

    async def find(self, manifest: Document) -> Document | None:
        """Return the stored object, None where there is none. Raises RefusedError or UNREACHED."""
        path, kind = self.path(manifest), self.served.kind
        return await if_there(self.admission.rest.get(path, kind=kind))

    async def pause(self) -> None:
        """See Cluster.pause."""
        await asyncio.sleep(_NEXT_SECOND)

    async def apply(self, manifest: Document) -> Document:
        """See Cluster.apply. What no webhook lets pass as a dry run is taken as it is asked for."""
        params = {"dryRun": "All", "force": "true", "fieldManager": self.manager}
        try:
            return await self.admission.acting.call(
                "PATCH", self.path(manifest), manifest, params=params, content_type=APPLY_PATCH
            )
        except RefusedError as error:
            if error.is_passing or error.missing_right:
                raise
            if _NO_DRY_RUN not in str(error):
                raise RefusedApplyError(str(error)) from error
            self.left_out["the API server"] = f"defaults and policies are not seen: {error}"
            return manifest

    def matches(self, webhook: str, review: Document) -> bool:
        """See Cluster.matches."""
        found, registered = _read(review), self.admission.registered[webhook]
        if found is None or not self._acts(registered, *found):
            return False
        hook = self.admission.hooks[webhook]
        reason = "" if hook.get("sideEffects") in _SAFE else _NO_SIDE_EFFECTS
        if not registered.match.is_exact(found[1]):
            reason = _OTHER_VERSION
        versions = hook.get("admissionReviewVersions") or ()
        if versions and "v1" not in versions:
            reason = _OLD_REVIEWS
        if reason:
            self.left_out[webhook] = reason
        return not reason

    def policies(self, review: Document, pointer: str) -> Sequence[str]:
        """See Cluster.policies."""
        asked = [policy for policy in self.admission.policies if policy.sets(pointer)]
        found = _read(review) if asked else None
        return [policy.name for policy in asked if found and self._acts(policy, *found)]

    def _acts(self, registration: Registration, request: AdmissionRequest, write: Matched) -> bool:
        # A namespace is matched by its own labels.
        labels = read_labels(write.labels) if self._is_namespace else self.namespace_labels
        if (
            registration.covers(msgspec.structs.replace(write, namespace_labels=labels))
            is Truth.FALSE
        ):
            return False
        if not registration.conditions:
            return True
        truths = self.admission.conditions.evaluate(registration.conditions, request)
        return every(truths[text] for text in registration.conditions) is not Truth.FALSE

    def review(
        self, operation: str, new: Document, old: Document | None, subresource: str = ""
    ) -> Document:
        """See Cluster.review."""
        served = self.served
        version = {"group": served.group, "version": served.version}
        kind, resource = {**version, "kind": served.kind}, {**version, "resource": served.resource}
        metadata = new.get("metadata") or {}
        namespace = metadata.get("name" if self._is_namespace else "namespace", "")
        options = {"apiVersion": "meta.k8s.io/v1", "kind": f"{operation.capitalize()}Options"}
        request = {
            "uid": str(uuid.uuid4()),
            "kind": kind,
            "resource": resource,
            **({"subResource": subresource} if subresource else {}),
            "requestKind": kind,
            "requestResource": resource,
            "name": metadata.get("name", ""),
            **({"namespace": namespace} if namespace else {}),
            "operation": operation,
            "userInfo": self.admission.user,
            "object": new,
            "oldObject": old,
            "dryRun": True,
            "options": {**options, "fieldManager": self.manager, "dryRun": ["All"]},
        }
        return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}

    async def call(self, webhook: str, review: Document) -> Any:
        """See Cluster.call."""
        at, rest = self.admission.hooks[webhook].get("clientConfig") or {}, self.admission.rest
        seconds = self.admission.registered[webhook].timeout_seconds
        try:
            async with asyncio.timeout(seconds):
                if at.get("url"):
                    return await _post(at["url"], at.get("caBundle") or "", review)
                return await rest.call("POST", _proxy(at.get("service") or {}), review)
        except TimeoutError as error:
            raise NotCalledError(f"no answer within {seconds} s") from error
        except (RefusedError, *UNREACHED, OSError, ValueError) as error:
            raise NotCalledError(str(error) or type(error).__name__) from error


@dataclass(slots=True)
class Convergence:
    """Looks at the manifests of one run: what several of them need is read once.

    seen  asks a running genguard what it saw of an object, None where none is asked
    tell  is told what is not known
    """

    admission: Admission
    applier: Applier
    ignores: Sequence[Ignore]
    seen: Callable[[FoundObject], Awaitable[Seen]] | None
    logs: Logs | None
    tell: Callable[[str], None]
    _reads: dict[tuple[object, ...], Any] = field(default_factory=dict)
    _reading: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def look_at_all(self, every_one: Sequence[Prepared]) -> list[ConvergeResult | Refused]:
        """Look at each manifest, some side by side. Raises RefusedError for a missing right."""
        at_once = asyncio.Semaphore(_AT_ONCE)  # most of the time is spent waiting

        async def look(prepared: Prepared) -> ConvergeResult | Refused:
            async with at_once:
                return await self._look(prepared, every_one)

        return await asyncio.gather(*map(look, every_one))

    async def _look(
        self, prepared: Prepared, beside: Sequence[Prepared]
    ) -> ConvergeResult | Refused:
        if prepared.served is None or prepared.unusable:
            return Refused(prepared.which, prepared.unusable)
        try:
            return await self._converge(prepared.served, prepared, beside)
        except RefusedApplyError as error:
            reason = f"the API server refuses it: {error}"
        except RefusedError as error:
            if error.missing_right:
                raise
            reason = f"it could not be looked at: {error}"
        except UNREACHED as error:
            reason = f"it could not be looked at: {unreached(error)}"
        if prepared.which["kind"] == "Secret":
            reason = "it cannot be applied: `kubectl apply --dry-run=server` says why"
        return Refused(prepared.which, reason)

    async def _converge(
        self, served: Served, prepared: Prepared, beside: Sequence[Prepared]
    ) -> ConvergeResult:
        labels = await self._once(self._labels, prepared.which["namespace"])
        cluster = DryRuns(self.admission, served, labels, self.applier.manager or _MANAGER)
        stored = await cluster.find(prepared.manifest)
        seen = None
        if self.seen and stored is not None:
            seen = await self.seen(object_of(prepared, stored))
        contested = list(
            known_contests(
                prepared, beside, stored, self.applier, seen=seen, logs=self.logs, tell=self.tell
            )
        )
        contested += await self._scaled(served, prepared, beside)
        generation = int((stored or {}).get("metadata", {}).get("generation") or 1)
        statuses = await self._once(read_statuses, self.admission.rest, served, generation)
        result = await converge(
            Asked(served, prepared.manifest, stored, statuses, contested), cluster
        )
        left_out = without_ignored(result.contested, prepared.which, self.ignores)
        # No GitOps tool compares pods, so none ignores what they lose.
        return result._replace(contested=[*left_out, *await self._pods(prepared, stored, cluster)])

    async def _pods(
        self, prepared: Prepared, stored: Document | None, cluster: DryRuns
    ) -> Sequence[Contested]:
        """Return what each pod of a template loses; nothing for a kind without a template."""
        # A manifest may be a part of what is stored, and a part of a pod is none.
        sent = pod_of(overlay(stored or {}, prepared.manifest))
        path = PODS.path(quote(prepared.which["namespace"], safe=""))
        acting, pods = self.admission.acting, replace(cluster, served=PODS, left_out={})
        try:
            made = await acting.call("POST", path, sent, params={"dryRun": "All"}) if sent else {}
            return await taken_from_pods(prepared.manifest, made, pods) if made else ()
        except RefusedError as error:
            self.tell(f"a pod of {cluster.served}/{prepared.which['name']} is not tried: {error}")
            is_invalid = error.status == HTTPStatus.UNPROCESSABLE_ENTITY
            return await taken_from_pods(prepared.manifest, None, pods) if is_invalid else ()

    async def _scaled(
        self, served: Served, prepared: Prepared, beside: Sequence[Prepared]
    ) -> list[Contested]:
        """Return the fields that an autoscaler of the namespace writes, or of the same input."""
        namespace = prepared.which["namespace"]
        given = [each for each in beside if each.which["namespace"] == namespace]
        scalers = [each.manifest for each in given]
        if get(prepared.manifest, "spec", "replicas") is not ABSENT:
            names = {each.which["name"] for each in given if each.which["kind"] == _AUTOSCALER}
            live = await self._once(self._list, _AUTOSCALERS.format(quote(namespace, safe="")))
            scalers += [each for each in live if get(each, "metadata", "name") not in names]
        return list(scaled_by(prepared.manifest, served, scalers))

    async def _once(self, read: Callable[..., Awaitable[T]], *words: object) -> T:
        """Read once what several objects need, also for those that ask while it is read."""
        key = read, *words
        async with self._reading:
            if key not in self._reads:
                self._reads[key] = await read(*words)
        found: T = self._reads[key]
        return found

    async def _labels(self, namespace: str) -> dict[str, str]:
        """Return the labels of a namespace; {} for one that is not there yet, or for none."""
        if not namespace:
            return {}
        path = f"/api/v1/namespaces/{quote(namespace, safe='')}"
        found = await if_there(self.admission.rest.get(path)) or {"metadata": {}}
        return found["metadata"].get("labels") or {}

    async def _list(self, path: str) -> Sequence[Document]:
        """Return the autoscalers of a namespace; () where they may not be read."""
        try:
            return await self.admission.rest.list_all(path)
        except RefusedError as error:
            if error.status not in (HTTPStatus.NOT_FOUND, HTTPStatus.FORBIDDEN):
                raise
            self.tell(f"{path.rpartition('/')[2]} are not known: {error}")
            return ()


def _read(review: Document) -> tuple[AdmissionRequest, Matched] | None:
    """Return a review as matching reads it; None where it or its labels are not valid."""
    try:
        request = decode_review(msgspec.json.encode(review))
    except (UndecodableReviewError, msgspec.MsgspecError, RecursionError):
        return None
    write = matched(request)
    return None if read_labels(write.labels) is None else (request, write)


def _proxy(service: Mapping[str, Any]) -> str:
    """Return the API server's path to a Service; it checks no certificate on the way."""
    namespace, name = service.get("namespace", ""), service.get("name", "")
    port, path = service.get("port") or _DEFAULT_PORT, service.get("path") or "/"
    at = f"/api/v1/namespaces/{namespace}/services/https:{name}:{port}/proxy"
    return f"{at}/{path.lstrip('/')}"


async def _post(url: str, bundle: str, review: Document) -> Any:
    try:
        pem = base64.b64decode(bundle, validate=True).decode("ascii")
    except (binascii.Error, UnicodeDecodeError) as error:
        raise NotCalledError("its caBundle is no PEM") from error
    context = ssl.create_default_context(cadata=pem or None)
    async with (
        aiohttp.ClientSession() as session,
        session.post(url, json=review, ssl=context) as answer,
    ):
        if answer.status != HTTPStatus.OK:
            raise NotCalledError(f"it answers {answer.status}")
        return msgspec.json.decode(await answer.read())


async def read_statuses(
    rest: Rest, served: Served, generation: int
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return two statuses that a controller of the kind might report; {} where none is declared.

    Raises RefusedError or UNREACHED.
    """
    schemas, of_kind = await _schemas(rest, served)
    status = (of_kind.get("properties") or {}).get("status")

    def resolve(schema: Mapping[str, Any]) -> Mapping[str, Any]:
        name = str(schema.get("$ref", "")).rpartition("/")[2]
        if name.endswith("resource.Quantity"):
            return {"enum": ["1", "2"]}
        found: Mapping[str, Any] = schemas.get(name, schema)
        return found

    return ({}, {}) if status is None else status_samples(status, generation, resolve)


async def _schemas(rest: Rest, served: Served) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Return the schemas of a version by their names, and that of the kind; {} where it has none.

    A kind that is new is served first, and its schema is published within a second or so. Raises
    RefusedError or UNREACHED.
    """
    at = f"apis/{served.group}/{served.version}" if served.group else f"api/{served.version}"
    wanted = {"group": served.group, "version": served.version, "kind": served.kind}
    end = time.monotonic() + _PUBLISHED_SECONDS
    while True:
        text = await if_there(rest.read(f"/openapi/v3/{at}"))
        document = msgspec.json.decode(text) if text else {}
        schemas: Mapping[str, Any] = document.get("components", {}).get("schemas", {})
        for schema in schemas.values():
            if wanted in (schema.get("x-kubernetes-group-version-kind") or ()):
                return schemas, schema
        if time.monotonic() >= end:
            if text:
                return schemas, {}
            missing = f"no schema of {served} is published at /openapi/v3/{at}; try again"
            raise RefusedError(HTTPStatus.NOT_FOUND, missing)
        await asyncio.sleep(_EVERY_SECONDS)

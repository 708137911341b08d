"""The objects of the fake API server, and every write of them. It knows nothing of HTTP.

Generation is counted by genguard's own engine: each write is made into the AdmissionReview that a
webhook would be sent, and predicted as the server of genguard predicts it.
"""

import copy
import threading
import uuid
from collections import deque
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

import msgspec

from genguard.admission.decode import decode_review
from genguard.generation.custom import BadDefinitionError
from genguard.generation.table import DEFAULT_SERVER_VERSION, load_table
from genguard.objects.equality import same_json
from genguard.patch.merge import merge_patch
from genguard.testing.deleting import end, is_over
from genguard.testing.ownership import (
    Manager,
    Owned,
    after_update,
    apply,
    encode,
    find_conflicts,
    find_leaves,
    refuse_conflicts,
)
from genguard.testing.patches import (
    APPLY_PATCH,
    JSON_PATCH,
    MERGE_PATCH,
    STRATEGIC_MERGE_PATCH,
    json_patch,
    strategic_merge_patch,
)
from genguard.testing.preparing import (
    Document,
    check_finalizers,
    check_name,
    complete,
    prepare_new,
    prepare_update,
    read_scale,
    take_scale,
    timestamp,
    validate,
)
from genguard.testing.refusals import (
    MODIFIED,
    RequestRefusedError,
    about,
    bad_request,
    conflict,
    denied,
    exists,
    expired,
    invalid,
    invalid_object,
    not_allowed,
    not_found,
    not_implemented,
    unsupported_media,
    wrong_uid,
)
from genguard.testing.resources import DEFINITIONS, Catalogue, Resource
from genguard.testing.selecting import selects
from genguard.testing.shapes import load_builtin_kinds
from genguard.testing.writes import Answer, Call, Event, Target, Write, make_review

MOST_EVENTS: Final = 10_000
"""A watch from an older resourceVersion is answered with 410, as by a real server."""
MOST_WRITES: Final = 20_000
NAMESPACES: Final = ("default", "kube-node-lease", "kube-public", "kube-system")
_CREATED: Final = 201
_ACCEPTED: Final = 202
_OK: Final = 200
_SUCCESS: Final[Document] = {
    "kind": "Status",
    "apiVersion": "v1",
    "metadata": {},
    "status": "Success",
}
_CONFLICT: Final = 409


class _Stored(NamedTuple):
    document: Document
    owned: Owned
    times: dict[Manager, str]


class Cluster:
    """Every object, in memory. Safe to call from several threads."""

    def __init__(
        self,
        server_version: str = DEFAULT_SERVER_VERSION,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        admit: Callable[[Document], Document] | None = None,
        refuse: Callable[[Document], str] = lambda _: "",
    ) -> None:
        """Begin with the namespaces that a new cluster has. Raise UnknownServerVersionError.

        admit  returns what mutating webhooks make of the object of a review, and leaves the review
               as it is
        refuse  returns why a validation refuses the review of what they left; "" where it does not
        """
        self.server_version: Final = server_version
        self.catalogue: Final = Catalogue(load_table(server_version))
        self.lock: Final = threading.RLock()
        self.version = 0
        self.writes: Final[deque[Write]] = deque(maxlen=MOST_WRITES)
        self.is_closed = False
        self._changed: Final = threading.Condition(self.lock)
        self._events: Final[deque[Event]] = deque(maxlen=MOST_EVENTS)
        self._objects: Final[dict[tuple[str, str], dict[tuple[str, str], _Stored]]] = {}
        self._now: Final = now
        self._admit: Final = admit
        self._refuse: Callable[[Document], str] = lambda _: ""
        spaces = self.resource("namespaces")
        for name in NAMESPACES:
            self.create(Target(spaces), {"metadata": {"name": name}}, Call("system:apiserver"))
        self.writes.clear()
        self._refuse = refuse

    # Reading.

    def resource(self, name: str) -> Resource:
        """Return a resource as kubectl writes it. Raise LookupError for one that is not served."""
        found = self.catalogue.named(name)
        if found is None:
            raise LookupError(
                f"{name} is not served: write it as kubectl does (`deployments.apps`), and give "
                "the CustomResourceDefinition of a custom resource"
            )
        return found

    def get(self, target: Target) -> Document:
        """Return a copy of an object, or its Scale. Raise RequestRefusedError."""
        with self.lock:
            return self._shown(target, self._stored(target).document)

    def select(self, resource: Resource, namespace: str = "") -> list[Document]:
        """Return copies of the objects of a namespace, or of all, in the order of their names."""
        with self.lock:
            target, found = Target(resource), self._objects.get(resource.key, {})
            return [
                self._shown(target, found[key].document)
                for key in sorted(found)
                if not namespace or key[0] == namespace
            ]

    def events_since(self, version: int, wait: float = 0) -> list[Event]:
        """Return the changes after a resourceVersion; wait so many seconds for the first.

        Raise RequestRefusedError for a version that is too old.
        """
        with self._changed:
            self._changed.wait_for(lambda: self.is_closed or self.version > version, wait)
            oldest = self._events[0].version if self._events else self.version + 1
            if version + 1 < oldest:
                raise expired()
            return [event for event in self._events if event.version > version]

    def close(self) -> None:
        """Let no watch wait any longer."""
        with self._changed:
            self.is_closed = True
            self._changed.notify_all()

    # Writing.

    def create(self, target: Target, body: Document, call: Call) -> Answer:
        """POST an object. Raise RequestRefusedError."""
        with self.lock:
            if target.subresource:
                return self._post_subresource(target, body, call)
            return self._create(target, self._read_body(target.resource, body), call)

    def update(self, target: Target, body: Document, call: Call) -> Answer:
        """PUT an object or a subresource. Raise RequestRefusedError."""
        resource = target.resource
        with self.lock:
            if target.subresource == "scale":
                return self._put_scale(target, body, call)
            document = self._read_body(resource, body)
            metadata = document["metadata"]
            self._check_name(target, metadata)
            stored = self._find(target)
            if stored is None:
                if (
                    resource.name not in load_builtin_kinds().creates_on_update
                    or target.subresource
                    or metadata.get("resourceVersion")
                ):
                    if metadata.get("uid"):
                        raise wrong_uid(resource.name, target.name, metadata["uid"])
                    raise not_found(resource.name, target.name)
                return self._create(target, document, call)
            needs_version = load_builtin_kinds().needs_resource_version
            if not metadata.get("resourceVersion") and (
                resource.is_custom or resource.name in needs_version
            ):
                cause = (
                    "metadata.resourceVersion",
                    "Invalid value: 0: must be specified for an update",
                )
                raise invalid_object(resource.kind, target.name, [cause], resource.group)
            return self._replace(target, stored, document, call)

    def patch(self, target: Target, patch: Any, content_type: str, call: Call) -> Answer:
        """PATCH an object or a subresource. Raise RequestRefusedError."""
        with self.lock:
            if content_type == APPLY_PATCH:
                return self._apply(target, patch, call)
            if call.force is not None:
                raise invalid(
                    'PatchOptions.meta.k8s.io "" is invalid: force: Forbidden: may not be '
                    "specified for non-apply patch"
                )
            stored = self._stored(target)
            current = self._shown(target, stored.document)
            patched = self._patched(target.resource, current, patch, content_type)
            if target.subresource == "scale":
                return self._put_scale(target, patched, call)
            self._check_name(target, patched["metadata"])
            return self._replace(target, stored, patched, call)

    def delete(self, target: Target, options: Mapping[str, Any], call: Call) -> Answer:
        """DELETE an object. Raise RequestRefusedError."""
        resource = target.resource
        if target.subresource:
            raise not_allowed("the server does not allow this method")
        with self.lock:
            stored = self._stored(target)
            before = stored.document
            document, after = self._take_away(target, stored, options, call)
            review = make_review("DELETE", target, None, before, call, options=dict(options))
            self._log(target, call, review, (before, None, after), status=_OK)
            shown = self._shown(target, document)
            if after is not None:
                status = _ACCEPTED if options.get("orphanDependents") is False else _OK
                return Answer(status, shown)
            if resource.name in load_builtin_kinds().returns_deleted:
                return Answer(_OK, shown)
            details = {**about(resource.name, target.name), "uid": before["metadata"]["uid"]}
            return Answer(_OK, {**_SUCCESS, "details": details})

    # What creates, updates and deletes have in common.

    def _create(
        self, target: Target, document: Document, call: Call, owned: Owned | None = None
    ) -> Answer:
        """Store a new object; `owned` says who owns its fields, if it is not who creates it."""
        resource, metadata = target.resource, document["metadata"]
        self._check_namespace(target, metadata)
        if metadata.get("resourceVersion"):
            raise RequestRefusedError(
                500, "", "resourceVersion should not be set on objects to be created"
            )
        target = target._replace(name=self._new_name(resource, metadata))
        warnings = complete(resource, document, call.validation)
        self._fill_metadata(target, metadata)
        prepare_new(resource, document)
        if self._find(target) is not None:
            raise exists(resource.name, target.name)
        review, asked = make_review("CREATE", target, document, None, call), document
        admitted = None
        try:
            admitted = document if self._admit is None else self._admit(review)
            document = copy.deepcopy(admitted)  # storing it sets what the log must not show
            validate(resource, document)
            self._check(_with_object(review, document))
        except RequestRefusedError as error:
            refused = (None, asked, None)
            self._log(target, call, review, refused, status=error.status, admitted=admitted)
            raise
        self._count(document, None, _with_object(review, document))
        if owned is None:
            leaves = find_leaves(resource.shape, document)
            owned = after_update({}, self._manager(target, call, document), {}, leaves)
        stored = self._finish(target, document, None, owned, call)
        documents = (None, asked, stored)
        self._log(target, call, review, documents, status=_CREATED, admitted=admitted)
        return Answer(_CREATED, self._shown(target, stored), tuple(warnings))

    def _check(self, review: Document) -> None:
        if why := self._refuse(review):
            raise denied(why)

    def _check_name(self, target: Target, metadata: Document) -> None:
        name = metadata.get("name", "")
        if name != target.name:
            raise bad_request(
                f"the name of the object ({name}) does not match the name on the URL "
                f"({target.name})"
            )

    def _stored(self, target: Target) -> _Stored:
        found = self._find(target)
        if found is None:
            raise not_found(target.resource.name, target.name)
        return found

    def _find(self, target: Target) -> _Stored | None:
        found = self._objects.get(target.resource.key, {})
        return found.get((target.namespace, target.name))

    def _shown(self, target: Target, document: Document) -> Document:
        """Return a copy of an object in the version of a target, or its Scale there.

        Raise RequestRefusedError.
        """
        resource, stored = target.resource, document["apiVersion"]
        if stored != resource.api_version and (resource.converted or not resource.is_custom):
            raise not_implemented(
                f"{resource.name} was stored as {stored}: it is not converted to "
                f"{resource.api_version}"
            )
        shown = {**copy.deepcopy(document), "apiVersion": resource.api_version}
        return read_scale(resource, shown) if target.subresource == "scale" else shown

    def _read_body(self, resource: Resource, body: Any) -> Document:
        if not isinstance(body, dict):
            raise bad_request("the body of the request is not an object")
        kind, version = body.get("kind"), body.get("apiVersion")
        if kind not in (None, "", resource.kind) or version not in (None, "", resource.api_version):
            raise bad_request(
                f"{kind} in version {version!r} cannot be handled as a {resource.kind}: the API "
                f"version in the data ({version}) or its kind does not match what is expected "
                f"({resource.api_version} {resource.kind})"
            )
        document = copy.deepcopy(body)
        metadata = document.get("metadata")
        if metadata is not None and not isinstance(metadata, dict):
            raise bad_request("metadata is not an object")
        document["metadata"] = metadata or {}
        document["apiVersion"], document["kind"] = resource.api_version, resource.kind
        return document

    def _check_namespace(self, target: Target, metadata: Document) -> None:
        if not target.resource.namespaced:
            metadata.pop("namespace", None)
            return
        given = metadata.setdefault("namespace", target.namespace)
        if given != target.namespace:
            raise bad_request(
                f"the namespace of the provided object does not match the namespace sent on the "
                f"request: {given} and {target.namespace}"
            )
        space = self._find(Target(self.resource("namespaces"), "", target.namespace))
        if space is None:
            raise not_found("namespaces", target.namespace)
        if "deletionTimestamp" in space.document["metadata"]:
            raise RequestRefusedError(
                403,
                "Forbidden",
                f"{target.resource.name} is forbidden: unable to create new content in namespace "
                f"{target.namespace} because it is being terminated",
                {"causes": [{"reason": "NamespaceTerminating"}]},
            )

    def _new_name(self, resource: Resource, metadata: Document) -> str:
        name = metadata.get("name", "")
        if not name and metadata.get("generateName"):
            name = f"{metadata['generateName']}{uuid.uuid4().hex[:5]}"
        if not name:
            cause = ("metadata.name", "Required value: name or generateName is required")
            raise invalid_object(resource.kind, "", [cause], resource.group)
        check_name(resource, name)
        metadata["name"] = name
        return str(name)

    def _fill_metadata(self, target: Target, metadata: Document) -> None:
        for name in ("deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"):
            metadata.pop(name, None)
        metadata.pop("managedFields", None)
        metadata["uid"] = str(uuid.uuid4())
        metadata["creationTimestamp"] = self._time()
        if target.resource.namespaced:
            metadata["namespace"] = target.namespace

    def _replace(self, target: Target, stored: _Stored, document: Document, call: Call) -> Answer:
        """Store what an update or a patch asks for."""
        resource, old = target.resource, stored.document
        resets = document["metadata"].get("managedFields") in ([], [{}])
        warnings = self._complete(target, old, document, call)
        document = prepare_update(resource, target.subresource, old, document)
        before = find_leaves(resource.shape, old)
        writer = self._manager(target, call, document)
        owned: Owned = {} if resets else stored.owned
        owned = after_update(owned, writer, before, find_leaves(resource.shape, document))
        return self._put(target, stored, document, owned, call, warnings=warnings)

    def _complete(self, target: Target, old: Document, document: Document, call: Call) -> list[str]:
        """Check what a client sends against what is stored, and complete it; return warnings."""
        resource, metadata = target.resource, document["metadata"]
        if resource.namespaced and metadata.setdefault("namespace", target.namespace) != (
            target.namespace
        ):
            raise bad_request(
                f"the namespace of the object ({metadata['namespace']}) does not match the "
                f"namespace on the request ({target.namespace})"
            )
        uid = metadata.get("uid")
        if uid and uid != old["metadata"]["uid"]:
            raise wrong_uid(resource.name, target.name, uid, old["metadata"]["uid"])
        version = metadata.pop("resourceVersion", None)
        if version and not str(version).isdecimal():
            text = f'strconv.ParseUint: parsing "{version}": invalid syntax'
            raise RequestRefusedError(500, "", text)
        warnings = complete(resource, document, call.validation)
        if version and version not in ("0", old["metadata"]["resourceVersion"]):
            metadata["resourceVersion"] = version  # by which detectors know a stale write
            self._log_refused(target, old, document, call, _CONFLICT)
            raise conflict(resource.name, target.name, MODIFIED)
        metadata.pop("managedFields", None)
        return warnings

    def _put(
        self,
        target: Target,
        stored: _Stored,
        document: Document,
        owned: Owned,
        call: Call,
        *,
        warnings: list[str],
    ) -> Answer:
        """Validate, count and store a prepared update."""
        resource, old = target.resource, stored.document
        document["metadata"].pop("resourceVersion", None)
        document["metadata"].pop("managedFields", None)
        shown_old, shown_new = old, document
        if target.subresource == "scale":
            shown_old, shown_new = read_scale(resource, old), read_scale(resource, document)
        review, asked = make_review("UPDATE", target, shown_new, shown_old, call), document
        admitted = None
        try:
            if self._admit is not None and target.subresource != "scale":
                admitted = shown_new = self._admit(review)
                # Storing it sets its resourceVersion, which the log must not show.
                document = copy.deepcopy(shown_new)
                document = prepare_update(resource, target.subresource, old, document)
            check_finalizers(resource, old, document)
            validate(resource, document)
            self._check(_with_object(review, shown_new))
        except RequestRefusedError as error:
            self._log_refused(target, old, asked, call, error.status, admitted=admitted)
            raise
        self._count(document, old, _with_object(review, shown_new))
        after = self._finish(target, document, stored, owned, call)
        self._log(target, call, review, (old, asked, after), status=_OK, admitted=shown_new)
        return Answer(_OK, self._shown(target, after), tuple(warnings))

    def _put_scale(self, target: Target, scale: Document, call: Call) -> Answer:
        stored = self._stored(target)
        old = stored.document
        metadata = scale.get("metadata") or {}
        if metadata.get("name", target.name) != target.name:
            raise bad_request("the name of the Scale does not match the name on the URL")
        version = metadata.get("resourceVersion")
        if version and version != old["metadata"]["resourceVersion"]:
            self._log_refused(target, old, old, call, _CONFLICT)
            raise conflict(target.resource.name, target.name, MODIFIED)
        document = take_scale(target.resource, old, scale)
        shape = target.resource.shape
        before, after = find_leaves(shape, old), find_leaves(shape, document)
        owned = after_update(stored.owned, self._manager(target, call, document), before, after)
        return self._put(target, stored, document, owned, call, warnings=[])

    def _patched(
        self, resource: Resource, current: Document, patch: Any, content_type: str
    ) -> Document:
        if content_type == JSON_PATCH:
            patched = json_patch(current, patch)
        elif content_type == MERGE_PATCH:
            patched = merge_patch(current, patch)
        elif content_type == STRATEGIC_MERGE_PATCH and not resource.is_custom:
            patched = strategic_merge_patch(resource.shape, current, patch)
        else:
            known = [JSON_PATCH, MERGE_PATCH, APPLY_PATCH]
            raise unsupported_media(
                known if resource.is_custom else [*known, STRATEGIC_MERGE_PATCH]
            )
        if not isinstance(patched, dict) or not isinstance(patched.get("metadata"), dict):
            raise bad_request("the patch leaves no object with metadata")
        return copy.deepcopy(patched)

    def _apply(self, target: Target, body: Any, call: Call) -> Answer:
        """Server-side apply."""
        resource = target.resource
        if not call.manager:
            raise invalid(
                'PatchOptions.meta.k8s.io "" is invalid: fieldManager: Required value: is required '
                "for apply patch"
            )
        if target.subresource == "scale":
            raise not_implemented("a server-side apply of /scale")
        if isinstance(body, dict) and not (body.get("apiVersion") and body.get("kind")):
            raise bad_request("invalid object type: apiVersion and kind must be set")
        applied = self._read_body(resource, body)
        if applied["metadata"].get("managedFields"):
            raise bad_request("metadata.managedFields must be nil")
        if applied["metadata"].setdefault("name", target.name) != target.name:
            raise bad_request(f"the name of the object does not match the URL: {target.name}")
        stored = self._find(target)
        if stored is None:
            if target.subresource:
                raise not_found(resource.name, target.name)
            return self._create_applied(target, applied, call)
        old = stored.document
        sent = copy.deepcopy(applied)
        warnings = self._complete_applied(target, old, applied, call)
        writer = self._manager(target, call, applied, "Apply")
        leaves = find_leaves(resource.shape, applied)
        clashes = find_conflicts(stored.owned, writer, find_leaves(resource.shape, old), leaves)
        if clashes and not call.force:
            self._log_refused(target, old, sent, call, _CONFLICT)
            raise refuse_conflicts(clashes)
        merged, owned = apply(resource.shape, old, applied, stored.owned, writer)
        complete(resource, merged, "Ignore")
        document = prepare_update(resource, target.subresource, old, merged)
        return self._put(target, stored, document, owned, call, warnings=warnings)

    def _complete_applied(
        self, target: Target, old: Document, applied: Document, call: Call
    ) -> list[str]:
        """Check what is applied against what is stored; it is not completed with defaults."""
        draft = copy.deepcopy(applied)
        warnings = self._complete(target, old, draft, call)
        for name in ("resourceVersion", "uid", "managedFields"):
            applied["metadata"].pop(name, None)
        resource = target.resource
        if target.subresource == "status":
            for name in applied.keys() - {"apiVersion", "kind", "metadata", "status"}:
                del applied[name]
        elif resource.has_status:
            applied.pop("status", None)
        return warnings

    def _create_applied(self, target: Target, applied: Document, call: Call) -> Answer:
        metadata, wanted = applied["metadata"], dict(applied)
        if metadata.get("uid") or metadata.get("resourceVersion"):
            raise conflict(target.resource.name, target.name, "the object is not there")
        if target.resource.has_status:
            wanted.pop("status", None)
        paths = frozenset(find_leaves(target.resource.shape, wanted))
        writer = self._manager(target, call, applied, "Apply")
        return self._create(target, applied, call, {writer: paths} if paths else {})

    def _post_subresource(self, target: Target, body: Document, call: Call) -> Answer:
        stored = self._stored(target)
        old = stored.document
        name = (body.get("metadata") or {}).get("name", target.name)
        if name != target.name:
            raise bad_request("the name in the URL does not match the name in the body")
        after: Document | None
        if target.subresource == "binding":
            if old["spec"].get("nodeName"):
                why = f"pod {target.name} is already assigned to node"
                raise conflict("pods/binding", target.name, why)
            document = copy.deepcopy(old)
            document["spec"]["nodeName"] = (body.get("target") or {}).get("name", "")
            ready = {"type": "PodScheduled", "status": "True", "lastTransitionTime": self._time()}
            document.setdefault("status", {}).setdefault("conditions", []).append(ready)
            after = self._finish(target, document, stored, stored.owned, call)
        elif target.subresource == "eviction":
            self._check_budgets(target, old)
            options = body.get("deleteOptions") or {}
            _, after = self._take_away(target, stored, options, call)
        else:
            raise not_implemented(f"a POST to {target.resource.name}/{target.subresource}")
        review = make_review("CREATE", target, body, None, call)
        self._log(target, call, review, (old, body, after), status=_CREATED)
        return Answer(_CREATED, {**_SUCCESS, "code": _CREATED})

    def _check_budgets(self, target: Target, pod: Document) -> None:
        for key, stored in self._objects.get(("policy", "poddisruptionbudgets"), {}).items():
            selector = (stored.document.get("spec") or {}).get("selector")
            if key[0] == target.namespace and selects(selector, pod):
                raise not_implemented(
                    f"an eviction of a pod that the PodDisruptionBudget {key[1]} selects"
                )

    def _take_away(
        self, target: Target, stored: _Stored, options: Mapping[str, Any], call: Call
    ) -> tuple[Document, Document | None]:
        """Return an object after a delete, and what is stored of it then: None if it is gone."""
        document = copy.deepcopy(stored.document)
        if not end(target.resource, document, options, self._now()):
            after = self._finish(target, document, stored, stored.owned, call)
            return after, after
        if not call.dry_run:
            self._remove(target, document)
        return document, None

    def _manager(
        self, target: Target, call: Call, document: Document, operation: str = "Update"
    ) -> Manager:
        return Manager(call.manager, operation, document["apiVersion"], target.subresource)

    def _finish(
        self, target: Target, document: Document, stored: _Stored | None, owned: Owned, call: Call
    ) -> Document:
        """Store a document where it differs from what is stored; return what is stored then."""
        metadata = document["metadata"]
        metadata.pop("managedFields", None)
        metadata.pop("resourceVersion", None)
        for name in ("labels", "annotations", "finalizers", "ownerReferences"):
            if metadata.get(name) in ({}, [], None):
                metadata.pop(name, None)
        before, old_owned, old_times = stored or (None, {}, {})
        if before is not None and old_owned == owned:
            same = {**before, "metadata": dict(before["metadata"])}
            same["metadata"].pop("managedFields", None)
            same["metadata"].pop("resourceVersion", None)
            if same_json(same, document):
                return before
        now = self._time()
        times = {
            manager: old_times.get(manager, now) if old_owned.get(manager) == paths else now
            for manager, paths in owned.items()
        }
        managed = encode(owned, times)
        if managed:
            metadata["managedFields"] = managed
        if call.dry_run:
            metadata["resourceVersion"] = before["metadata"]["resourceVersion"] if before else ""
            return document
        if target.resource.key == DEFINITIONS:
            self._establish(document)
        if before is not None and is_over(target.resource, document):
            self._remove(target, document)
            return document
        self.version += 1
        metadata["resourceVersion"] = str(self.version)
        objects = self._objects.setdefault(target.resource.key, {})
        objects[target.namespace, target.name] = _Stored(document, owned, times)
        kind = "ADDED" if before is None else "MODIFIED"
        self._tell(Event(self.version, kind, target, document, before))
        return document

    def _remove(self, target: Target, document: Document) -> None:
        objects = self._objects.get(target.resource.key, {})
        before = objects.pop((target.namespace, target.name)).document
        self.version += 1
        document["metadata"]["resourceVersion"] = str(self.version)
        self._tell(Event(self.version, "DELETED", target, document, before))
        if target.resource.key == DEFINITIONS:
            self._forget(document)

    def _forget(self, definition: Document) -> None:
        """Delete the custom resources of a definition that is gone."""
        spec = definition["spec"]
        resource = self.catalogue.named(f"{spec['names']['plural']}.{spec['group']}")
        if resource is not None:
            for key, stored in list(self._objects.get(resource.key, {}).items()):
                self._remove(Target(resource, *key), stored.document)
        self.catalogue.forget(definition["metadata"]["name"])

    def _establish(self, definition: Document) -> None:
        """Serve what a definition declares, and say so in its status. Raise RequestRefusedError."""
        try:
            self.catalogue.define(definition)
        except (BadDefinitionError, KeyError, TypeError) as error:
            name = definition["metadata"].get("name", "")
            raise invalid(f'CustomResourceDefinition "{name}" is invalid: {error}') from error
        status = definition.setdefault("status", {})
        spec = definition["spec"]
        stored = [version["name"] for version in spec["versions"] if version.get("storage")]
        known = [version for version in status.get("storedVersions", ()) if version not in stored]
        status["storedVersions"] = [*known, *stored]
        status["acceptedNames"] = spec["names"]
        if not status.get("conditions"):
            status["conditions"] = [
                {
                    "type": kind,
                    "status": "True",
                    "reason": reason,
                    "lastTransitionTime": self._time(),
                }
                for kind, reason in (
                    ("NamesAccepted", "NoConflicts"),
                    ("Established", "InitialNamesAccepted"),
                )
            ]

    def _count(self, document: Document, old: Document | None, review: Document) -> None:
        """Set metadata.generation to what genguard predicts."""
        request = decode_review(msgspec.json.encode(review))
        prediction = self.catalogue.engine.predict(request)
        metadata = document["metadata"]
        generation = prediction.generation
        if generation is None and old is not None:
            generation = old["metadata"].get("generation", 0) + (prediction.step or 0)
        metadata.pop("generation", None)
        if generation:
            metadata["generation"] = generation

    def _log(
        self,
        target: Target,
        call: Call,
        review: Document,
        documents: tuple[Document | None, Document | None, Document | None],
        *,
        status: int,
        admitted: Document | None = None,
    ) -> None:
        """Remember a write, with the object before it, as asked for, and after it.

        admitted  what webhooks made of what was asked for
        """
        before, asked, after = documents
        operation = review["request"]["operation"]
        write = Write(
            self._now(), call.user, call.manager, operation, target, before, asked, after, status,
            dry_run=call.dry_run,
            options=review["request"]["options"] if operation == "DELETE" else None,
            review=review,
            admitted=copy.deepcopy(admitted),
        )  # fmt: skip
        self.writes.append(write)

    def _log_refused(
        self,
        target: Target,
        old: Document,
        asked: Document,
        call: Call,
        status: int,
        *,
        admitted: Document | None = None,
    ) -> None:
        """Remember an update that webhooks would have seen, and that was not stored."""
        review = make_review("UPDATE", target, asked, old, call)
        self._log(target, call, review, (old, asked, None), status=status, admitted=admitted)

    def _tell(self, event: Event) -> None:
        self._events.append(event)
        self._changed.notify_all()

    def _time(self) -> str:
        return timestamp(self._now())


def _with_object(review: Document, shown: Document) -> Document:
    return {**review, "request": {**review["request"], "object": shown}}

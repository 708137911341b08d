"""The fake API server as tests use it: in a `with` block, or by the fixture `fake_api_server`."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from genguard.detection.mutators import Mutators
from genguard.formats.documents import LONGEST_LINE, Unreadable, bounded, read_documents
from genguard.generation.custom import CustomResource
from genguard.generation.table import DEFAULT_SERVER_VERSION
from genguard.testing.cluster import Cluster
from genguard.testing.patches import APPLY_PATCH, MERGE_PATCH
from genguard.testing.preparing import read_scale
from genguard.testing.server import HttpServer
from genguard.testing.webhooks import Chain, MutatingWebhook
from genguard.testing.writes import Call, Target, Write

Definition = Mapping[str, Any] | Path | str
"""A CustomResourceDefinition, or the path of a YAML or JSON file with one or several."""


class FakeApiServer:
    """A Kubernetes API server in memory, on a port of 127.0.0.1, that counts generation right.

    It serves the built-in kinds of one Kubernetes version and the given custom resources. There
    are no controllers, no garbage collector and no kubelet: what they would do, a test does.

        with FakeApiServer("crds.yaml") as server:
            client = kubernetes.config.new_client_from_config_dict(server.kubeconfig("operator"))

    Every method may be called from any thread. Objects are copies: changing one changes nothing
    in the server.
    """

    def __init__(
        self,
        *definitions: Definition,
        server_version: str = DEFAULT_SERVER_VERSION,
        user: str = "test",
        webhooks: Sequence[MutatingWebhook] = (),
        refuse: Callable[[dict[str, Any]], str] = lambda _: "",
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """Prepare a server; it opens its port when it is entered, or by start().

        definitions     CustomResourceDefinitions, or files with them
        server_version  which Kubernetes: before `1.33`, Pods have no generation
        user            who writes by the methods below, and in requests that name no user
        webhooks        called for each create and update, scale aside, in this order
        refuse          a validating webhook or policy: why it refuses the AdmissionReview of a
                        create or an update as `webhooks` left it; "" where it does not
        now             the time of each write: a test of what takes minutes need not wait

        Raises ValueError for a definition or a version that cannot be read and for two webhooks of
        one name, OSError for a file.
        """
        self._chain: Final = Chain(webhooks)
        self._cluster: Final = Cluster(server_version, now, self._chain.admit, refuse)
        self._server: HttpServer | None = None
        self._user: Final = user
        for definition in definitions:
            self.define(definition)
        self._cluster.writes.clear()

    def __enter__(self) -> Self:
        """Open the port."""
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the port."""
        self.stop()

    def start(self) -> None:
        """Open the port; returns when requests are answered."""
        if self._server is not None:
            raise RuntimeError("a fake API server starts once")
        self._server = HttpServer(self._cluster, self._user)

    def stop(self) -> None:
        """End every watch and close the port; may be called twice."""
        if self._server is not None:
            self._server.stop()

    @property
    def url(self) -> str:
        """The address: `http://127.0.0.1:38517`. It is plain HTTP, and nothing is checked."""
        port = 0 if self._server is None else self._server.server_address[1]
        return f"http://127.0.0.1:{port}"

    def kubeconfig(self, user: str = "", namespace: str = "default") -> dict[str, Any]:
        """Return a kubeconfig for this server. Each user of the log has a kubeconfig of its own.

        user       who writes, as admission webhooks would see it; it is sent as a bearer token
        namespace  the namespace of the context
        """
        name = "fake"
        context = {"cluster": name, "user": name, "namespace": namespace}
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": name,
            "clusters": [{"name": name, "cluster": {"server": self.url}}],
            "users": [{"name": name, "user": {"token": user or self._user}}],
            "contexts": [{"name": name, "context": context}],
        }

    def define(self, definition: Definition) -> None:
        """Serve custom resources. Raises ValueError where a definition cannot be read."""
        for document in _read_definitions(definition):
            self.create(document)

    def create(self, document: Mapping[str, Any], *, user: str = "") -> dict[str, Any]:
        """POST an object, which has apiVersion and kind.

        Raises RequestRefusedError, LookupError.
        """
        target = self._target_of(document)
        return self._cluster.create(target, dict(document), self._call(user)).body

    def get(self, resource: str, name: str, namespace: str = "default") -> dict[str, Any]:
        """GET an object; `resource` as kubectl writes it: `deployments.apps`.

        Raises RequestRefusedError where it is not there, LookupError where its resource is not
        served.
        """
        return self._cluster.get(self._target(resource, name, namespace))

    def list(self, resource: str, namespace: str = "") -> list[dict[str, Any]]:
        """Return the objects of a namespace, or of all. Raises LookupError."""
        return self._cluster.select(self._cluster.resource(resource), namespace)

    def update(
        self, document: Mapping[str, Any], *, subresource: str = "", user: str = ""
    ) -> dict[str, Any]:
        """PUT an object or its status; a resourceVersion in it must be the stored one.

        Raises RequestRefusedError, LookupError.
        """
        target = self._target_of(document)._replace(
            name=document["metadata"]["name"], subresource=subresource
        )
        return self._cluster.update(target, dict(document), self._call(user)).body

    def patch(
        self,
        resource: str,
        name: str,
        patch: Any,
        namespace: str = "default",
        *,
        subresource: str = "",
        content_type: str = MERGE_PATCH,
        user: str = "",
    ) -> dict[str, Any]:
        """PATCH an object, as a merge patch where `content_type` says nothing else.

        Raises RequestRefusedError, LookupError.
        """
        target = self._target(resource, name, namespace)._replace(subresource=subresource)
        return self._cluster.patch(target, patch, content_type, self._call(user)).body

    def apply(
        self, document: Mapping[str, Any], manager: str, *, force: bool = False, user: str = ""
    ) -> dict[str, Any]:
        """Server-side apply.

        Raises LookupError, and RequestRefusedError, for one where another manager owns a field.
        """
        target = self._target_of(document)._replace(name=document["metadata"]["name"])
        call = Call(user or self._user, manager, force=force)
        return self._cluster.patch(target, dict(document), APPLY_PATCH, call).body

    def delete(
        self,
        resource: str,
        name: str,
        namespace: str = "default",
        *,
        options: Mapping[str, Any] | None = None,
        user: str = "",
    ) -> None:
        """DELETE an object; `options` is a DeleteOptions.

        Raises RequestRefusedError, LookupError.
        """
        target = self._target(resource, name, namespace)
        self._cluster.delete(target, options or {}, self._call(user))

    def has_status(self, resource: str) -> bool:
        """Whether status is a subresource of a resource. Raises LookupError."""
        return self._cluster.resource(resource).has_status

    @property
    def writes(self) -> tuple[Write, ...]:
        """The log: the last 20,000 writes, oldest first, those that were refused too."""
        with self._cluster.lock:
            return tuple(self._cluster.writes)

    def forget_writes(self) -> None:
        """Empty the log: what was written until now was the set-up of the test."""
        with self._cluster.lock:
            self._cluster.writes.clear()

    def recording(self, writes: Iterable[Write] | None = None) -> Iterator[bytes]:
        """Yield the log as lines that `genguard replay` reads, three reviews for each update.

        writes  these, in place of all
        """
        for write in self.writes if writes is None else writes:
            yield from _recorded(write)

    @property
    def mutators(self) -> Mutators:
        """The webhooks, for detectors."""
        return self._chain.mutators

    @property
    def custom_resources(self) -> tuple[CustomResource, ...]:
        """What is known of the custom resources, for the engine and for detectors."""
        return self._cluster.catalogue.custom

    @property
    def server_version(self) -> str:
        """The Kubernetes version that is imitated."""
        return self._cluster.server_version

    def _call(self, user: str) -> Call:
        return Call(user or self._user, user or self._user)

    def _target(self, resource: str, name: str, namespace: str) -> Target:
        found = self._cluster.resource(resource)
        return Target(found, namespace if found.namespaced else "", name)

    def _target_of(self, document: Mapping[str, Any]) -> Target:
        api_version, kind = document.get("apiVersion", ""), document.get("kind", "")
        found = self._cluster.catalogue.of_kind(api_version, kind)
        if found is None:
            raise LookupError(
                f"{kind or 'an object without kind'} of {api_version or 'no apiVersion'} is not "
                "served: give its CustomResourceDefinition to FakeApiServer"
            )
        metadata = document.get("metadata") or {}
        return Target(found, metadata.get("namespace", "default") if found.namespaced else "")


def _read_definitions(given: Definition) -> Iterator[dict[str, Any]]:
    if isinstance(given, Mapping):
        yield dict(given)
        return
    path = Path(given)
    with path.open("rb") as stream:
        for document in read_documents(bounded(stream, LONGEST_LINE)):
            match document:
                case Unreadable():
                    raise ValueError(f"{path}: {document}")
                case _ if document.value.get("kind") == "CustomResourceDefinition":
                    yield document.value


def _recorded(write: Write) -> Iterable[bytes]:
    """Yield the reviews of one write, as three webhooks of genguard would be sent them."""
    at = write.time.isoformat().replace("+00:00", "Z")
    request = write.review["request"]
    sent = request["object"]
    phases: list[tuple[str, Any]] = []
    if write.operation != "DELETE":
        shown = [sent, sent if write.admitted is None else write.admitted]
        if write.operation == "CREATE":
            shown = [_before_storing(document) for document in shown]
        phases = list(zip(("intent", "mutate"), shown, strict=True))
    if not write.is_refused:
        phases.append(("outcome", _outcome(write, sent)))
    for phase, shown in phases:
        review = {**write.review, "request": {**request, "object": shown}}
        line = {"time": at, "phase": phase, "review": review}
        yield json.dumps(line, separators=(",", ":")).encode() + b"\n"


def _before_storing(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a new object as mutating webhooks see it: the server has not numbered it yet."""
    metadata = dict(document.get("metadata") or {})
    for name in ("uid", "creationTimestamp", "generation"):
        metadata.pop(name, None)
    return {**document, "metadata": metadata}


def _outcome(write: Write, sent: Any) -> Any:
    """Return an object as validating webhooks see it: counted, and not stored yet."""
    target = write.target
    if write.after is None or (target.subresource and write.operation == "CREATE"):
        return sent
    after = write.after
    metadata = {key: value for key, value in after["metadata"].items() if key != "resourceVersion"}
    if write.before is not None:
        metadata["resourceVersion"] = write.before["metadata"]["resourceVersion"]
    after = {**after, "metadata": metadata}
    return read_scale(target.resource, after) if target.subresource == "scale" else after

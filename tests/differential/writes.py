"""Random writes of every kind against one object, each under a user name of its own.

The user name is what joins a write with its reviews: the API server shows the impersonated user
to webhooks, and every retry inside the server keeps it.
"""

import itertools
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.controlplane.client import APPLY_PATCH, Client, Response
from tests.controlplane.discovery import ServedResource
from tests.differential.samples import Filler, Sample, notation

WRITER = "writer-"
FINALIZER = "example.org/hold"
_serials = itertools.count()


@dataclass(frozen=True)
class Written:
    """One write that the API server accepted."""

    user: str
    what: str
    resource: ServedResource
    subresource: str
    operation: str
    before: dict[str, Any] | None
    answer: Any
    after: dict[str, Any] | None
    options: dict[str, Any] | None = None


class Target:
    """One object, and everything that can be done to it."""

    def __init__(
        self,
        client: Client,
        resource: ServedResource,
        sample: Sample,
        filler: Filler,
        namespace: str,
    ) -> None:
        self.resource = resource
        self.sample = sample
        self.filler = filler
        self.name = filler.next_name(sample)
        self.written: list[Written] = []
        self.refused = 0
        self._client = client
        self._namespace = namespace

    def path(self, subresource: str | None = None) -> str:
        """The object's, or a subresource's."""
        return self.resource.path(self._namespace, self.name, subresource)

    def get(self) -> dict[str, Any] | None:
        """The object as stored, None when it is gone."""
        found = self._client.get(self.path(), check=False)
        return found.body if found.status == 200 else None

    def create(self, *, generation: int | None = None, finalizer: bool = False) -> None:
        """POST it, perhaps with a generation of the client's own and with a finalizer."""
        body = self.filler.fill(self.sample.object(self.resource.version))
        metadata = {"name": self.name, **body.get("metadata", {})}
        if generation is not None:
            metadata["generation"] = generation
        if finalizer:
            metadata["finalizers"] = [FINALIZER]
        document = {
            "apiVersion": self.resource.api_version,
            "kind": self.resource.kind,
            **body,
            "metadata": metadata,
        }
        collection = self.resource.path(self._namespace)
        self.write(
            "create", "CREATE", lambda c, p: c.post(collection, document, params=p, check=False)
        )

    def write(
        self,
        what: str,
        operation: str,
        send: Callable[[Client, Mapping[str, str]], Response],
        *,
        subresource: str = "",
        dry_run: bool = False,
        options: dict[str, Any] | None = None,
    ) -> Response:
        """Send one write as a new user; remember it when it was accepted."""
        user = f"{WRITER}{next(_serials)}"
        before = self.get()
        client = self._client.as_user(user, ["system:masters"])
        params = {"fieldManager": "differential"} | ({"dryRun": "All"} if dry_run else {})
        answer = send(client, params)
        if answer.status >= 400:
            self.refused += 1
            return answer
        after = before if dry_run else self.get()
        self.written.append(
            Written(
                user,
                what,
                self.resource,
                subresource,
                operation,
                before,
                answer.body,
                after,
                options,
            )
        )
        return answer

    def patch(self, what: str, body: Any, *, subresource: str = "", dry_run: bool = False) -> None:
        """Merge patch of the object or of a subresource."""
        path = self.path(subresource or None)
        self.write(
            what, "UPDATE", lambda c, p: c.patch(path, body, params=p, check=False),
            subresource=subresource, dry_run=dry_run,
        )  # fmt: skip

    def put(
        self, what: str, change: Callable[[dict[str, Any]], None], *, subresource: str = ""
    ) -> None:
        """PUT the object as it is now, changed."""
        path = self.path(subresource or None)
        document = self.get()
        if document is None:
            return
        change(document)
        self.write(
            what, "UPDATE", lambda c, p: c.put(path, document, params=p, check=False),
            subresource=subresource,
        )  # fmt: skip

    def apply(self, what: str, body: dict[str, Any]) -> None:
        """Server-side apply of a few fields."""
        document = {
            "apiVersion": self.resource.api_version,
            "kind": self.resource.kind,
            **body,
            "metadata": {"name": self.name, **body.get("metadata", {})},
        }
        self.write(
            what,
            "UPDATE",
            lambda c, p: c.patch(
                self.path(),
                document,
                content_type=APPLY_PATCH,
                params={**p, "force": "true"},
                check=False,
            ),
        )

    def delete(self, options: dict[str, Any]) -> None:
        """DELETE with options."""
        body = {"apiVersion": "v1", "kind": "DeleteOptions", **options}
        what = f"delete {options.get('propagationPolicy', '')}".strip()
        self.write(
            what, "DELETE", lambda c, _: c.delete(self.path(), body, check=False), options=options
        )


def _label(word: str) -> dict[str, Any]:
    return {"metadata": {"labels": {"note": word}}}


def random_write(target: Target) -> None:
    """One write that does not delete, chosen at random among those the resource has."""
    draw = target.filler.random
    choices: list[tuple[int, Callable[[Target], None]]] = [
        (3, _metadata),
        (2, _no_change),
        (1, _own_generation),
        (1, _status_on_main),
        (1, _dry_run),
    ]
    if target.sample.changes:
        choices += [(8, _counted), (2, _counted_by_put), (2, _counted_by_apply)]
    if target.sample.status is not None and "status" in target.resource.subresources:
        choices += [(4, _status), (2, _status_by_put)]
    choices += [
        (3, do) for name, do in SUBRESOURCE_WRITES.items() if name in target.resource.subresources
    ]
    weights: Sequence[int] = [weight for weight, _ in choices]
    draw.choices([do for _, do in choices], weights)[0](target)


def _change(target: Target) -> dict[str, Any]:
    return target.filler.fill(target.filler.random.choice(target.sample.changes))


def _counted(target: Target) -> None:
    target.patch("change", _change(target), dry_run=target.filler.random.random() < 0.1)


def _counted_by_put(target: Target) -> None:
    change = _change(target)
    target.put("change by put", lambda document: _merge(document, change))


def _counted_by_apply(target: Target) -> None:
    target.apply("change by apply", _change(target))


def _metadata(target: Target) -> None:
    word = target.filler.fill("$s")
    metadata = target.filler.random.choice(
        (
            _label(word),
            {"metadata": {"annotations": {"note": word}}},
            {"metadata": {"finalizers": [FINALIZER]}},
            {"metadata": {"finalizers": None}},
            {"metadata": {"ownerReferences": [_owner(word)]}},
        )
    )
    target.patch("metadata", metadata)


def _owner(word: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "name": word, "uid": f"uid-{word}"}


def _no_change(target: Target) -> None:
    target.put("no change", lambda document: None)


def _own_generation(target: Target) -> None:
    wanted = target.filler.random.choice((0, 1, 77, None))
    target.patch(
        "own generation", {"metadata": {"generation": wanted, "labels": {"g": str(wanted)}}}
    )


def _status_on_main(target: Target) -> None:
    if target.sample.status is not None:
        target.patch("status on main", target.filler.fill(target.sample.status))


def _dry_run(target: Target) -> None:
    target.patch("dry run", _label(target.filler.fill("$s")), dry_run=True)


def _status(target: Target) -> None:
    target.patch("status", target.filler.fill(target.sample.status), subresource="status")


def _status_by_put(target: Target) -> None:
    status = target.filler.fill(target.sample.status)

    def change(document: dict[str, Any]) -> None:
        _merge(document, status)
        if target.sample.changes:  # a spec in a status write is thrown away
            _merge(document, _change(target))

    target.put("status by put", change, subresource="status")


def _scale(target: Target) -> None:
    replicas = target.filler.random.choice((1, 2, 3))
    target.patch("scale", {"spec": {"replicas": replicas}}, subresource="scale")


def _resize(target: Target) -> None:
    cpu = target.filler.random.choice(("100m", "0.1", "200m"))

    def change(pod: dict[str, Any]) -> None:
        container = target.filler.random.choice(pod["spec"]["containers"])
        container.setdefault("resources", {}).setdefault("requests", {})["cpu"] = cpu
        if target.filler.random.random() < 0.5:  # thrown away by the subresource
            pod["spec"]["containers"][0]["image"] = f"example.org/other:{cpu}"

    target.put("resize", change, subresource="resize")


def _ephemeral_containers(target: Target) -> None:
    def change(pod: dict[str, Any]) -> None:
        containers = pod["spec"].setdefault("ephemeralContainers", [])
        if target.filler.random.random() < 0.7:
            containers.append({"name": f"debug-{len(containers)}", "image": "example.org/debug:1"})
        pod["spec"]["activeDeadlineSeconds"] = 5  # thrown away by the subresource

    target.put("ephemeral containers", change, subresource="ephemeralcontainers")


def _bind(target: Target) -> None:
    node = {"apiVersion": "v1", "kind": "Node", "name": "node-1"}
    body = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": target.name},
        "target": node,
    }
    path = target.path("binding")
    target.write(
        "bind",
        "CREATE",
        lambda c, p: c.post(path, body, params=p, check=False),
        subresource="binding",
    )


def _approve(target: Target) -> None:
    condition = {"type": "Approved", "status": "True", "reason": target.filler.fill("$s")}
    target.patch("approve", {"status": {"conditions": [condition]}}, subresource="approval")


def _finalize(target: Target) -> None:
    wanted = target.filler.random.choice((["kubernetes"], ["kubernetes", "example.org/other"]))
    target.put(
        "finalize",
        lambda document: document["spec"].update(finalizers=wanted),
        subresource="finalize",
    )


SUBRESOURCE_WRITES: dict[str, Callable[[Target], None]] = {
    "scale": _scale,
    "resize": _resize,
    "ephemeralcontainers": _ephemeral_containers,
    "binding": _bind,
    "approval": _approve,
    "finalize": _finalize,
}


def finish(target: Target) -> None:
    """End the object in one of the ways an object can end, each of them a DELETE or an eviction."""
    draw: random.Random = target.filler.random
    if "eviction" in target.resource.subresources and draw.random() < 0.5:
        target.patch("hold", {"metadata": {"finalizers": [FINALIZER]}})
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": target.name}}
        path = target.path("eviction")
        target.write(
            "evict", "CREATE", lambda c, _: c.post(path, body, check=False), subresource="eviction"
        )
    policy = draw.choice((None, "Background", "Foreground", "Orphan"))
    options: dict[str, Any] = {} if policy is None else {"propagationPolicy": policy}
    if notation(target.resource) == "pods" and draw.random() < 0.5:
        options["gracePeriodSeconds"] = draw.choice((0, 5, 600))
    if draw.random() < 0.5:
        target.patch("hold", {"metadata": {"finalizers": [FINALIZER]}})
    target.delete(options)
    if target.get() is None:
        return
    if draw.random() < 0.5:
        target.delete(options)  # repeated
    if target.sample.changes and draw.random() < 0.5:
        target.patch("change while deleting", _change(target))
    target.patch("release", {"metadata": {"finalizers": None}})


def _merge(document: dict[str, Any], patch: Mapping[str, Any]) -> None:
    """RFC 7386, in place."""
    for key, value in patch.items():
        if isinstance(value, dict) and isinstance(document.get(key), dict):
            _merge(document[key], value)
        else:
            document[key] = value

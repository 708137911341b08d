"""CustomResourceDefinitions for tests, with and without a status subresource."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tests.controlplane.client import wait_until
from tests.controlplane.fixtures import unique
from tests.controlplane.plane import ControlPlane

_CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


@dataclass(frozen=True, slots=True)
class Custom:
    """One served custom resource, in one namespace."""

    plane: ControlPlane
    namespace: str
    group: str
    path: str

    @property
    def resource(self) -> str:
        """As metrics name it."""
        return f"widgets.{self.group}"

    def body(self, name: str = "one", **fields: Any) -> dict[str, Any]:
        return {
            "apiVersion": f"{self.group}/v1",
            "kind": "Widget",
            "metadata": {"name": name},
            **fields,
        }

    def create(self, name: str = "one", **fields: Any) -> dict[str, Any]:
        made: dict[str, Any] = self.plane.client.post(self.path, self.body(name, **fields)).body
        return made

    def put(
        self, found: dict[str, Any], subresource: str = "", *, dry_run: bool = False, **fields: Any
    ) -> dict[str, Any]:
        """Replaces top-level fields of what was read before."""
        at = "/".join(filter(None, (self.path, found["metadata"]["name"], subresource)))
        params = {"dryRun": "All"} if dry_run else None
        stored: dict[str, Any] = self.plane.client.put(at, found | fields, params=params).body
        return stored

    def get(self, name: str = "one") -> dict[str, Any]:
        found: dict[str, Any] = self.plane.client.get(f"{self.path}/{name}").body
        return found


def definition(
    group: str, plural: str, kind: str, schema: dict[str, Any], *, status: bool
) -> dict[str, Any]:
    """A CustomResourceDefinition of one version; `status`: with that subresource."""
    version = {"name": "v1", "served": True, "storage": True}
    version |= {"schema": {"openAPIV3Schema": schema}}
    if status:
        version |= {"subresources": {"status": {}}}
    names = {"plural": plural, "singular": kind.lower(), "kind": kind, "listKind": f"{kind}List"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {"group": group, "scope": "Namespaced", "names": names, "versions": [version]},
    }


@contextmanager
def defined(plane: ControlPlane, document: Mapping[str, Any]) -> Iterator[None]:
    """Its kind is served until this is left."""
    name, spec = document["metadata"]["name"], document["spec"]
    path = f"/apis/{spec['group']}/v1/{spec['names']['plural']}"
    plane.client.post(_CRDS, document)
    try:
        wait_until(lambda: plane.client.get(path, check=False).status == 200, what=path)
        yield
    finally:
        plane.client.delete(f"{_CRDS}/{name}")


@contextmanager
def served(
    plane: ControlPlane, namespace: str, *, status_subresource: bool, group: str = ""
) -> Iterator[Custom]:
    """Defines `widgets`, in a group of their own unless told, until they can be written."""
    group = group or f"{unique('e2e')}.genguard.io"
    # A negative size is refused after mutating admission, in the strategy.
    part = {
        "type": "object",
        "properties": {"size": {"type": "integer", "minimum": 0}},
        "x-kubernetes-preserve-unknown-fields": True,
    }
    schema = {"type": "object", "properties": {"spec": part, "status": part}}
    document = definition(group, "widgets", "Widget", schema, status=status_subresource)
    custom = Custom(plane, namespace, group, f"/apis/{group}/v1/namespaces/{namespace}/widgets")
    body = custom.body("probe")
    with defined(plane, document):
        wait_until(
            lambda: plane.client.post(custom.path, body, params={"dryRun": "All"}),
            what=f"{custom.resource} served",
        )
        yield custom

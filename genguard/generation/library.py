"""The engine as a library: predict generation for plain dictionaries, without a server.

Fakes of the Kubernetes API need this: they get generation wrong in ways that hide real bugs
(kubernetes-sigs/controller-runtime#1857, fabric8io/kubernetes-client#3471).
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from genguard.admission.review import (
    V1,
    AdmissionRequest,
    GroupVersionKind,
    GroupVersionResource,
    Operation,
    ReviewedObject,
    WireRequest,
)
from genguard.generation.custom import CustomResource, CustomResources, StatusSubresource
from genguard.generation.prediction import Prediction
from genguard.generation.table import DEFAULT_SERVER_VERSION, find_row, load_table
from genguard.generation.transition import Engine
from genguard.objects.fields import fields_of


def predict(
    operation: str,
    resource: str,
    new: Mapping[str, Any] | None,
    old: Mapping[str, Any] | None = None,
    *,
    subresource: str = "",
    options: Mapping[str, Any] | None = None,
    server_version: str = DEFAULT_SERVER_VERSION,
    status_subresource: bool | None = None,
) -> Prediction:
    """What the API server makes of `metadata.generation` for one write.

    operation           CREATE, UPDATE or DELETE
    resource            as kubectl writes it: `pods`, `deployments.apps`, `widgets.example.org`
    new, old            the object after and before, as the API server shows it (defaulted);
                        `metadata` may be left out of `new`; old is needed for UPDATE and DELETE
    subresource         `status`, `scale`, `resize`, `ephemeralcontainers`, ... ; for `scale` give
                        Scale objects, or the scaled objects themselves to get the generation too
    options             DeleteOptions of a DELETE: `{"propagationPolicy": "Foreground"}`
    server_version      which Kubernetes: `1.32` gives Pods no generation, `1.33` does
    status_subresource  for custom resources: whether their version declares one

    >>> predict("CREATE", "pods", {"spec": {}}).generation
    1
    >>> predict("CREATE", "pods", {"spec": {}}, server_version="1.32").generation is None
    True

    Raises ValueError for an operation or server version that does not exist.
    """
    plural, _, group = resource.partition(".")
    kind = _kind(group, plural, new or old or {})
    described: tuple[CustomResource, ...] = ()
    if status_subresource is not None:
        status = StatusSubresource.PRESENT if status_subresource else StatusSubresource.ABSENT
        described = (CustomResource(group, kind.version, plural, kind.kind, status),)
    wire = WireRequest(
        uid="predict",
        kind=kind,
        resource=GroupVersionResource(group, kind.version, plural),
        operation=Operation(operation),
        sub_resource=subresource,
        options=msgspec.Raw(msgspec.json.encode(options)),
    )
    request = AdmissionRequest(V1, wire, _reviewed(new), _reviewed(old))
    engine = Engine(load_table(server_version), CustomResources(described))
    prediction = engine.predict(request)
    if prediction.generation is None and prediction.step is not None and request.old_object:
        before = request.old_object.metadata.stored_generation
        if before:
            return msgspec.structs.replace(prediction, generation=before + prediction.step)
    return prediction


def _kind(group: str, plural: str, document: Mapping[str, Any]) -> GroupVersionKind:
    version = str(document.get("apiVersion", "")).rpartition("/")[2]
    row = find_row(group, plural)
    if row is None:
        return GroupVersionKind(group, version, "")
    # The version chooses the shapes that typed comparison needs.
    known = version if version in row.versions else row.versions[0]
    return GroupVersionKind(group, known, row.kind)


def _reviewed(document: Mapping[str, Any] | None) -> ReviewedObject | None:
    if document is None:
        return None
    return ReviewedObject.of(fields_of({"metadata": {}, **document}))

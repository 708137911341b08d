"""Chains of webhooks beside a real API server: who is called, how often, and what comes out."""

import itertools
from contextlib import ExitStack
from typing import Any

import pytest

from genguard.testing import FakeApiServer, MutatingWebhook, every_order
from tests.controlplane.fixtures import NamespaceFactory
from tests.controlplane.plane import ControlPlane
from tests.controlplane.webhook_listener import WebhookListener

CONFIGMAP: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "one"},
    "data": {"size": "1", "log": "-"},
}


def data(request: dict[str, Any]) -> dict[str, str]:
    found: dict[str, str] = request["object"].get("data") or {}
    return found


def copies(request: dict[str, Any]) -> list[dict[str, Any]]:
    if "size" not in data(request):
        return []  # a probe
    return [{"op": "add", "path": "/data/copy", "value": data(request)["size"]}]


def doubles(request: dict[str, Any]) -> list[dict[str, Any]]:
    if data(request).get("size") != "1":
        return []
    return [{"op": "replace", "path": "/data/size", "value": "2"}]


def appends(request: dict[str, Any]) -> list[dict[str, Any]]:
    if "log" not in data(request):
        return []
    return [{"op": "replace", "path": "/data/log", "value": f"{data(request)['log']}+"}]


ACTING = {"copies": copies, "doubles": doubles, "appends": appends}
NAMES = ("aaa", "mmm", "zzz")


@pytest.mark.parametrize("order", every_order(list(ACTING)), ids="-".join)  # type: ignore[arg-type]
@pytest.mark.parametrize(
    "reinvoked", list(itertools.product([False, True], repeat=3)), ids=lambda one: str(sum(one))
)
def test_a_chain_gives_what_a_real_api_server_stores(
    apiserver: ControlPlane,
    namespace: NamespaceFactory,
    order: tuple[str, ...],
    reinvoked: tuple[bool, ...],
) -> None:
    where = namespace(apiserver)
    fake = FakeApiServer(
        webhooks=[
            MutatingWebhook(
                one, lambda review, act=one: ACTING[act](review["request"]), reinvoked=again
            )
            for one, again in zip(order, reinvoked, strict=True)
        ]
    )
    with ExitStack() as stack:
        listeners = []
        for name, one, again in zip(NAMES, order, reinvoked, strict=True):
            listener = stack.enter_context(WebhookListener(apiserver.authority, ACTING[one]))
            policy = {"reinvocationPolicy": "IfNeeded" if again else "Never"}
            stack.enter_context(listener.registered(apiserver, where, name=name, **policy))
            listeners.append(listener)
        made = apiserver.client.post(f"/api/v1/namespaces/{where}/configmaps", CONFIGMAP).body
    assert fake.create(CONFIGMAP)["data"] == made["data"]

"""Clients as people have them, run against the fake API server."""

import asyncio
import contextlib
import json
import threading
import urllib.request
from collections.abc import Iterator
from typing import Any

import kopf
import kubernetes
import pytest

from genguard.testing import FakeApiServer, NotConvergedError, assert_converges, assert_no_loop
from tests.controlplane.client import wait_until
from tests.differential.samples import definitions
from tests.waiting import PATIENCE

WIDGET = {
    "apiVersion": "example.org/v1",
    "kind": "Widget",
    "metadata": {"name": "one"},
    "spec": {"size": 1},
}


@pytest.fixture
def server(fake_api_server: FakeApiServer) -> FakeApiServer:
    for definition in definitions()["items"]:
        fake_api_server.define(definition)
    fake_api_server.forget_writes()
    return fake_api_server


@pytest.fixture
def client(server: FakeApiServer) -> Iterator[kubernetes.client.ApiClient]:
    with kubernetes.config.new_client_from_config_dict(server.kubeconfig("operator")) as found:
        yield found


def deployment(**spec: Any) -> dict[str, Any]:
    template = {
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "main", "image": "example.org/app:1"}]},
    }
    selector = {"matchLabels": {"app": "web"}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {"selector": selector, "template": template, **spec},
    }


def test_the_kubernetes_client_reads_typed_objects_with_defaults(client):
    api = kubernetes.client.AppsV1Api(client)
    made = api.create_namespaced_deployment("default", deployment())
    assert (made.metadata.generation, made.spec.replicas) == (1, 1)
    assert made.spec.strategy.rolling_update.max_surge == "25%"
    labelled = api.patch_namespaced_deployment(
        "web", "default", {"metadata": {"labels": {"a": "b"}}}
    )
    assert labelled.metadata.generation == 1
    scaled = api.patch_namespaced_deployment_scale("web", "default", {"spec": {"replicas": 3}})
    assert scaled.spec.replicas == 3
    found = api.read_namespaced_deployment("web", "default")
    assert found.metadata.generation == 2
    found.status.observed_generation = 2
    reported = api.replace_namespaced_deployment_status("web", "default", found)
    assert (reported.metadata.generation, reported.status.observed_generation) == (2, 2)


def test_the_kubernetes_client_is_told_of_conflicts_and_missing_objects(client):
    api = kubernetes.client.AppsV1Api(client)
    stale = api.create_namespaced_deployment("default", deployment())
    api.patch_namespaced_deployment("web", "default", {"spec": {"replicas": 2}})
    refused = (
        (409, lambda: api.replace_namespaced_deployment("web", "default", stale)),
        (409, lambda: api.create_namespaced_deployment("default", deployment())),
        (404, lambda: api.read_namespaced_deployment("gone", "default")),
        (404, lambda: api.create_namespaced_deployment("nowhere", deployment())),
    )
    for status, ask in refused:
        with pytest.raises(kubernetes.client.ApiException) as caught:
            ask()
        assert caught.value.status == status
        assert json.loads(caught.value.body)["kind"] == "Status"


def test_the_dynamic_client_finds_resources_by_discovery_and_applies(client, server):
    dynamic = kubernetes.dynamic.DynamicClient(client)
    widgets = dynamic.resources.get(api_version="example.org/v1", kind="Widget")
    made = widgets.server_side_apply(body=WIDGET, namespace="default", field_manager="operator")
    assert made.metadata.generation == 1
    same = widgets.server_side_apply(body=WIDGET, namespace="default", field_manager="operator")
    assert same.metadata.resourceVersion == made.metadata.resourceVersion
    other = {**WIDGET, "spec": {"size": 2}}
    with pytest.raises(kubernetes.dynamic.exceptions.ConflictError):
        widgets.server_side_apply(body=other, namespace="default", field_manager="rival")
    assert server.get("widgets.example.org", "one")["spec"] == {"size": 1}


def test_a_watch_goes_on_from_the_version_of_a_list(client, server):
    api = kubernetes.client.CustomObjectsApi(client)
    at = {"group": "example.org", "version": "v1", "namespace": "default", "plural": "widgets"}
    server.create(WIDGET)
    version = api.list_namespaced_custom_object(**at)["metadata"]["resourceVersion"]
    server.patch("widgets.example.org", "one", {"spec": {"size": 2}})
    server.delete("widgets.example.org", "one")
    watch = kubernetes.watch.Watch()
    events = watch.stream(
        api.list_namespaced_custom_object, resource_version=version, timeout_seconds=1, **at
    )
    seen = [(event["type"], event["object"]["metadata"]["generation"]) for event in events]
    assert seen == [("MODIFIED", 2), ("DELETED", 2)]


def test_a_watch_sends_what_is_there_and_then_bookmarks(server):
    server.create(WIDGET)
    query = "watch=true&sendInitialEvents=true&allowWatchBookmarks=true&timeoutSeconds=1"
    address = f"{server.url}/apis/example.org/v1/widgets?{query}&resourceVersionMatch=NotOlderThan"
    with urllib.request.urlopen(address, timeout=PATIENCE) as answer:
        events = [json.loads(line) for line in answer]
    assert [event["type"] for event in events] == ["ADDED", "BOOKMARK"]
    ended = events[1]["object"]["metadata"]["annotations"]
    assert ended == {"k8s.io/initial-events-end": "true"}


@contextlib.contextmanager
def running(registry: kopf.OperatorRegistry) -> Iterator[None]:
    """A kopf operator in a thread of its own."""
    stop, ready = threading.Event(), threading.Event()

    def run() -> None:
        loop = asyncio.new_event_loop()
        settings = kopf.OperatorSettings()
        settings.posting.enabled = False
        settings.process.ultimate_exiting_timeout = 5
        operator = kopf.operator(
            registry=registry, settings=settings, standalone=True, clusterwide=True,
            stop_flag=stop, ready_flag=ready,
        )  # fmt: skip
        loop.run_until_complete(operator)
        loop.close()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        assert ready.wait(60)
        yield
    finally:
        stop.set()
        thread.join(60)
    assert not thread.is_alive()


def operator(server: FakeApiServer) -> kopf.OperatorRegistry:
    registry = kopf.OperatorRegistry()

    @kopf.on.login(registry=registry)
    def login(**_: Any) -> kopf.ConnectionInfo:
        return kopf.ConnectionInfo(server=server.url, token="operator")  # noqa: S106 - a name

    return registry


@pytest.mark.filterwarnings("default")  # those of kopf are not ours
def test_a_kopf_operator_reconciles_and_comes_to_an_end(server):
    registry = operator(server)
    sizes = []

    @kopf.on.create("example.org", "v1", "widgets", registry=registry)
    @kopf.on.update("example.org", "v1", "widgets", registry=registry)
    def reconcile(spec: Any, meta: Any, patch: Any, **_: Any) -> None:
        sizes.append(spec["size"])
        patch.status["observedGeneration"] = meta["generation"]
        patch.status["conditions"] = [{"type": "Ready", "status": "True"}]

    @kopf.on.delete("example.org", "v1", "widgets", registry=registry)
    def clean_up(**_: Any) -> None:
        sizes.append(None)

    with running(registry):
        server.create(WIDGET)
        assert_converges(server, "widgets.example.org", "one", timeout=60)
        server.patch("widgets.example.org", "one", {"spec": {"size": 2}}, user="somebody")
        assert_converges(server, "widgets.example.org", "one", timeout=60)
        assert server.get("widgets.example.org", "one")["metadata"]["generation"] == 2
        assert_no_loop(server)
        server.delete("widgets.example.org", "one")
        wait_until(lambda: not server.list("widgets.example.org"), what="the finalizer removed")
    assert sizes == [1, 2, None]
    assert {write.user for write in server.writes} == {"test", "somebody", "operator"}


@pytest.mark.filterwarnings("default")
def test_a_kopf_operator_that_writes_its_own_spec_never_comes_to_an_end(server):
    registry = operator(server)

    @kopf.on.event("example.org", "v1", "widgets", registry=registry)
    def grow(spec: Any, patch: Any, **_: Any) -> None:
        patch.spec["size"] = spec["size"] + 1

    with running(registry):
        server.create(WIDGET)
        with pytest.raises(NotConvergedError, match=r"operator .* generation \d+ → \d+"):
            assert_converges(server, "widgets.example.org", "one", timeout=30)

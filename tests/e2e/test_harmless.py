"""genguard never breaks a write, and remembers nothing of one that was not made."""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from tests.controlplane.client import ApiError, wait_until
from tests.controlplane.fixtures import NamespaceFactory
from tests.controlplane.plane import ControlPlane
from tests.controlplane.webhook_listener import Patch, WebhookListener
from tests.e2e.audit import AuditTrail
from tests.e2e.culprits import OLD_OPERATOR, deployment, pod, zeroes_observed_generation
from tests.e2e.custom import Custom, served
from tests.e2e.genguard import Genguard
from tests.e2e.registrations import registered, rule

STATUS = ["widgets/status"]
WIDGETS = rule(["widgets", *STATUS])


@pytest.fixture(scope="module")
def guard(cluster: ControlPlane) -> Iterator[Genguard]:
    with Genguard(f"--kubeconfig={cluster.kubeconfig}") as running:
        yield running


@pytest.fixture
def widgets(cluster: ControlPlane, namespace: NamespaceFactory) -> Iterator[Custom]:
    with served(cluster, namespace(cluster), status_subresource=True) as found:
        yield found


def test_writes_go_on_when_genguard_is_gone(
    cluster: ControlPlane, namespace: NamespaceFactory
) -> None:
    name = namespace(cluster)
    pods, deployments = (
        f"/api/v1/namespaces/{name}/pods",
        f"/apis/apps/v1/namespaces/{name}/deployments",
    )
    with Genguard() as gone, registered(cluster, name, gone):
        assert gone.stop(at_once=True) == 0
        cluster.client.post(pods, pod())
        cluster.client.patch(f"{pods}/one", {"spec": {"activeDeadlineSeconds": 9000}})
        cluster.client.patch(f"{pods}/one/status", {"status": {"message": "here"}})
        cluster.client.post(deployments, deployment())
        cluster.kubectl("rollout", "status", "deployment/web", f"--namespace={name}")
        cluster.client.patch(f"{deployments}/web/scale", {"spec": {"replicas": 1}})
        cluster.client.delete(f"{deployments}/web")
        cluster.client.delete(f"{pods}/one")


def test_deletions_and_connections_pass_even_where_every_hook_is_asked(
    cluster: ControlPlane, namespace: NamespaceFactory, guard: Genguard
) -> None:
    name = namespace(cluster)
    at = f"/api/v1/namespaces/{name}"
    everything = rule(["*/*"])
    before = reviewed(guard, "CONNECT"), reviewed(guard, "DELETE")
    with registered(cluster, name, guard, rules=[everything]):
        waiting = pod("waiting")
        waiting["spec"]["schedulerName"] = "nobody"
        cluster.client.post(f"{at}/pods", waiting)
        cluster.client.post(f"{at}/pods", pod("running"))
        for each in ("a", "b"):
            cluster.client.post(f"{at}/configmaps", {"metadata": {"name": each}})
        # The answer comes from behind admission: there is no node to connect to.
        for connect in ("exec?command=ls&stdout=true", "attach?stdout=true"):
            with pytest.raises(ApiError, match="does not have a host assigned"):
                cluster.client.post(f"{at}/pods/waiting/{connect}", None)

        cluster.client.delete(f"{at}/configmaps")
        cluster.client.delete(f"{at}/pods/waiting", {"gracePeriodSeconds": 0})
        cluster.client.delete(f"{at}/pods/running")
        wait_until(lambda: not cluster.client.get(f"{at}/pods").body["items"])
    assert reviewed(guard, "CONNECT") >= before[0] + 2
    assert reviewed(guard, "DELETE") >= before[1] + 4


def reviewed(guard: Genguard, operation: str) -> float:
    return guard.metric("genguard_reviews_total", phase="mutate", operation=operation)


def test_a_dry_run_shows_the_mended_object_and_leaves_nothing_behind(
    cluster: ControlPlane, widgets: Custom, guard: Genguard
) -> None:
    with (
        WebhookListener(cluster.authority, zeroes_observed_generation) as culprit,
        culprit.registered(
            cluster, widgets.namespace, ["widgets/status"], name=OLD_OPERATOR, sideEffects="None"
        ),
        registered(cluster, widgets.namespace, guard, rules=[WIDGETS]),
    ):
        made = widgets.create()
        observed = {"observedGeneration": 1}
        dry = widgets.put(made, "status", status=observed, dry_run=True)
        assert dry["status"] == observed
        # This requester did not write the field, so what the dry run wrote is not restored.
        real = widgets.put(made, "status", status={"size": 1})
        assert real["status"] == {"size": 1, "observedGeneration": 0}
        assert widgets.put(real, "status", status=observed)["status"] == dry["status"]


def test_a_refused_write_leaves_no_intent_behind(
    cluster: ControlPlane, widgets: Custom, guard: Genguard
) -> None:
    with registered(cluster, widgets.namespace, guard, rules=[WIDGETS]):
        made = widgets.create()
        with pytest.raises(ApiError, match="size"):
            widgets.put(made, "status", status={"observedGeneration": 1, "size": -1})
        assert widgets.put(made, "status", status={"size": 1})["status"] == {"size": 1}


def test_a_refused_write_leaves_no_audit_annotation_behind(
    cluster: ControlPlane, widgets: Custom, guard: Genguard
) -> None:
    trail = AuditTrail(cluster, widgets.namespace)
    with registered(cluster, widgets.namespace, guard, rules=[WIDGETS]):
        made = widgets.create(spec={"size": 1})
        with pytest.raises(ApiError, match="size"):
            widgets.put(made, spec={"size": -1})
        labelled = made["metadata"] | {"labels": {"a": "b"}}
        assert widgets.put(made, metadata=labelled)["metadata"]["generation"] == 1
    assert trail.said("widgets", name="one") == [
        {"generation": "1 created"},
        {"generation": "2 spec-changed"},
    ]


def test_two_refused_writes_do_not_keep_later_ones_from_being_mended(
    cluster: ControlPlane, widgets: Custom, guard: Genguard
) -> None:
    with (
        WebhookListener(cluster.authority, zeroes_observed_generation) as culprit,
        culprit.registered(cluster, widgets.namespace, STATUS, name=OLD_OPERATOR),
        registered(cluster, widgets.namespace, guard, rules=[WIDGETS]),
    ):
        # The write of a loop: as long as it is clobbered it changes nothing, so that the stored
        # resourceVersion, by which phases are joined, stays.
        made = widgets.put(widgets.create(), "status", status={"size": 1})
        culprit.patch = fails_the_request
        for number in (1, 2):
            with pytest.raises(ApiError, match="not-there"):
                widgets.put(made, "status", status={"size": 1, "observedGeneration": number})
        culprit.patch = zeroes_observed_generation
        wanted = {"size": 1, "observedGeneration": 1}
        for _ in range(2):
            found = widgets.put(made, "status", status=wanted)
        assert found["status"] == wanted


def fails_the_request(request: Mapping[str, Any]) -> Patch:
    del request
    return [{"op": "remove", "path": "/status/not-there"}]

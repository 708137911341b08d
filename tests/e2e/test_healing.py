"""What hung before genguard enforced: the next pod knows it, puts the value back, and it holds."""

import shlex
from collections.abc import Iterator
from typing import Any

import pytest

from tests.controlplane.client import wait_until
from tests.controlplane.fixtures import NamespaceFactory
from tests.controlplane.plane import ControlPlane
from tests.e2e.account import Account, account
from tests.e2e.genguard import Genguard
from tests.e2e.registrations import registered
from tests.e2e.test_rollout import Web, old_operator

NAMESPACE = "genguard-healing"
CONFIGMAP = "genguard-findings"
LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/genguard"
DETECTOR = "observed-generation-cleared"


@pytest.fixture(scope="module")
def owner(cluster: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Account]:
    """genguard's account, with the rights of the manifests that enforce and heal."""
    kubeconfig = tmp_path_factory.mktemp("account") / "kubeconfig"
    with account(cluster, NAMESPACE, kubeconfig) as found:
        yield found
        cluster.client.delete(LEASE, check=False)


def flags(owner: Account) -> tuple[str, ...]:
    return f"--kubeconfig={owner.kubeconfig}", f"--findings-configmap={CONFIGMAP}"


def finding(guard: Genguard) -> dict[str, Any] | None:
    found = guard.findings()
    return next((one for one in found if one["detector"] == DETECTOR), None)


def looked_on(cluster: ControlPlane, owner: Account, web: Web) -> dict[str, Any]:
    """An audit-only genguard sees a rollout hang, and ends; its finding."""
    with (
        Genguard("--audit-only", *flags(owner)) as guard,
        registered(cluster, web.namespace, guard),
    ):
        web.create()
        assert "observedGeneration" not in web.available("image:1")["status"]
        web.hangs()
        found = wait_until(lambda: finding(guard), what="a finding")
        # The Lease of a server that was killed is free after 7 s, and only a leader saves.
        wait_until(lambda: guard.log_lines("leading"), what="a leader")
        assert guard.stop(at_once=True) == 0
        return found


def hold_the_lease(cluster: ControlPlane, holder: str) -> None:
    """Let somebody hold the Lease for an hour; "": nobody."""
    spec = {"holderIdentity": holder, "leaseDurationSeconds": 3600}
    cluster.client.patch(LEASE, {"spec": spec})


def test_an_enforcing_pod_heals_what_an_audit_only_pod_before_it_saw_hang(
    cluster: ControlPlane, namespace: NamespaceFactory, owner: Account
) -> None:
    web = Web(cluster, namespace(cluster))
    with old_operator(cluster, web.namespace):
        before = looked_on(cluster, owner, web)
        saved = owner.client.get(f"/api/v1/namespaces/{NAMESPACE}/configmaps/{CONFIGMAP}").body
        assert saved["binaryData"]["findings"]
        # In a cluster pods are replaced behind registrations that stay. Here these are new: until
        # the API server calls them, the webhook would clear what is healed as well.
        hold_the_lease(cluster, "another")
        with Genguard("--heal", *flags(owner)) as guard, registered(cluster, web.namespace, guard):
            hold_the_lease(cluster, "")
            (restored,) = guard.log_lines("findings restored")
            assert restored["findings"] >= 1
            web.completes()  # and nobody but genguard has written
            assert guard.metric("genguard_heals_total", result="healed") == 1
            (healed,) = guard.log_lines("status healed")
            assert healed["finding"] == before["id"]
            assert healed["set"] == {"status.observedGeneration": 1}
            assert healed["writer"] == "system:serviceaccount:kube-system:deployment-controller"
            assert not guard.log_lines("finding opened"), "what is carried is no news"
            path = f"/apis/events.k8s.io/v1/namespaces/{web.namespace}/events"
            (event,) = wait_until(
                lambda: [
                    one
                    for one in cluster.client.get(path).body["items"]
                    if one["reason"] == "StatusHealed"
                ],
                what="an Event",
            )
            assert event["regarding"]["kind"] == "Deployment"
            assert event["regarding"]["name"] == "web"
            managers = {
                one["manager"]: one["subresource"]
                for one in web.get()["metadata"]["managedFields"]
                if "subresource" in one
            }
            assert managers["genguard"] == "status"


def test_by_hand_the_command_of_the_finding_ends_the_hang(
    cluster: ControlPlane, namespace: NamespaceFactory, owner: Account
) -> None:
    web = Web(cluster, namespace(cluster))
    with old_operator(cluster, web.namespace):
        found = looked_on(cluster, owner, web)
    web.hangs()
    program, *words = shlex.split(found["repair"])
    assert program == "kubectl"
    cluster.kubectl(*words)
    web.completes()

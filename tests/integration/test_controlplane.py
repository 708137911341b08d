"""The control plane that other tests trust: versions, APIs, users, webhooks, a clean end."""

import json
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.controlplane.build import pinned, provided
from tests.controlplane.client import ApiError, wait_until
from tests.controlplane.fixtures import NamespaceFactory
from tests.controlplane.options import Options
from tests.controlplane.plane import ControlPlane
from tests.controlplane.processes import ServerFailedError
from tests.controlplane.webhook_listener import WebhookListener

# Every persisted resource of Kubernetes 1.36, by API group.
PERSISTED = {
    "": """configmaps endpoints events limitranges namespaces nodes persistentvolumeclaims
        persistentvolumes pods podtemplates replicationcontrollers resourcequotas secrets
        serviceaccounts services""",
    "admissionregistration.k8s.io": """mutatingadmissionpolicies mutatingadmissionpolicybindings
        mutatingwebhookconfigurations validatingadmissionpolicies
        validatingadmissionpolicybindings validatingwebhookconfigurations""",
    "apiextensions.k8s.io": "customresourcedefinitions",
    "apiregistration.k8s.io": "apiservices",
    "apps": "controllerrevisions daemonsets deployments replicasets statefulsets",
    "autoscaling": "horizontalpodautoscalers",
    "batch": "cronjobs jobs",
    "certificates.k8s.io": """certificatesigningrequests clustertrustbundles
        podcertificaterequests""",
    "coordination.k8s.io": "leasecandidates leases",
    "discovery.k8s.io": "endpointslices",
    "events.k8s.io": "events",
    "flowcontrol.apiserver.k8s.io": "flowschemas prioritylevelconfigurations",
    "internal.apiserver.k8s.io": "storageversions",
    "networking.k8s.io": "ingressclasses ingresses ipaddresses networkpolicies servicecidrs",
    "node.k8s.io": "runtimeclasses",
    "policy": "poddisruptionbudgets",
    "rbac.authorization.k8s.io": "clusterrolebindings clusterroles rolebindings roles",
    "resource.k8s.io": """deviceclasses devicetaintrules resourceclaims resourceclaimtemplates
        resourcepoolstatusrequests resourceslices""",
    "scheduling.k8s.io": "podgroups priorityclasses workloads",
    "storage.k8s.io": """csidrivers csinodes csistoragecapacities storageclasses
        volumeattachments volumeattributesclasses""",
    "storagemigration.k8s.io": "storageversionmigrations",
}
CONFIG_MAP = {"metadata": {"name": "here"}, "data": {"a": "1"}}
POD = {"metadata": {"name": "one"}, "spec": {"containers": [{"name": "c", "image": "image"}]}}


def test_the_version_is_stamped(apiserver: ControlPlane) -> None:
    if provided("kube-apiserver"):
        pytest.skip("KUBEBUILDER_ASSETS brings a kube-apiserver of its own version")
    version = apiserver.client.get("/version").body
    assert version["gitVersion"] == f"v{pinned('k8s.io/kubernetes')}" == "v1.36.3"
    assert (version["major"], version["minor"]) == ("1", "36")


def test_every_persisted_resource_of_the_release_is_served(every_api: ControlPlane) -> None:
    expected = {(group, name) for group, names in PERSISTED.items() for name in names.split()}
    served = {(each.group, each.resource) for each in every_api.client.discover() if each.persisted}
    # Definitions of other tests on this API server may be there as well.
    builtin = {(group, name) for group, name in served if not group.endswith("example.org")}
    assert builtin == expected
    assert len(expected) == 68


def test_discovery_tells_verbs_subresources_kinds_and_scopes(every_api: ControlPlane) -> None:
    found = {(each.api_version, each.resource): each for each in every_api.client.discover()}
    deployments = found["apps/v1", "deployments"]
    assert deployments.kind == "Deployment"
    assert deployments.namespaced
    assert deployments.subresources.keys() == {"status", "scale"}
    assert deployments.path("a", "b", "status") == "/apis/apps/v1/namespaces/a/deployments/b/status"
    assert "resize" in found["v1", "pods"].subresources
    assert not found["v1", "nodes"].namespaced
    assert not found["authentication.k8s.io/v1", "tokenreviews"].persisted


def test_an_older_release_is_emulated() -> None:
    with ControlPlane(Options(emulated_version="1.34")) as plane:
        version = plane.client.get("/version").body
        assert (version["minor"], version["emulationMinor"]) == ("36", "34")
        assert not any(each.version == "v1alpha2" for each in plane.client.discover())

        pods = "/api/v1/namespaces/default/pods"
        made = plane.client.post(pods, POD).body
        assert made["metadata"]["generation"] == 1
        status = {"status": {"observedGeneration": 1}}
        seen = plane.client.patch(f"{pods}/one/status", status).body
        assert seen["status"]["observedGeneration"] == 1


@pytest.mark.parametrize(("release", "kept"), [("1.33", False), (None, True)])
def test_status_fields_follow_the_emulated_release(release: str | None, *, kept: bool) -> None:
    with ControlPlane(Options(emulated_version=release)) as plane:
        pods = "/api/v1/namespaces/default/pods"
        plane.client.post(pods, POD)
        status = {"status": {"observedGeneration": 1}}
        seen = plane.client.patch(f"{pods}/one/status", status).body
        assert ("observedGeneration" in seen["status"]) is kept


def test_a_webhook_on_https_loopback_is_called(
    apiserver: ControlPlane, namespace: NamespaceFactory
) -> None:
    name = namespace(apiserver)
    with WebhookListener(apiserver.authority) as listener, listener.registered(apiserver, name):
        apiserver.client.post(f"/api/v1/namespaces/{name}/configmaps", CONFIG_MAP)
        (review,) = listener.reviews
    assert review["request"]["operation"] == "CREATE"
    assert review["request"]["object"]["data"] == {"a": "1"}
    assert review["request"]["userInfo"]["username"] == "kubernetes-admin"


def test_other_users_are_impersonated_and_authorized(
    apiserver: ControlPlane, namespace: NamespaceFactory
) -> None:
    path = f"/api/v1/namespaces/{namespace(apiserver)}/configmaps"
    alice = apiserver.client.as_user("alice", ["developers"])
    with pytest.raises(ApiError, match='User "alice" cannot create') as refused:
        alice.post(path, CONFIG_MAP)
    assert (refused.value.status, refused.value.reason) == (403, "Forbidden")
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    me = alice.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", review).body
    assert me["status"]["userInfo"]["groups"] == ["developers", "system:authenticated"]


def test_a_watch_yields_what_happens(apiserver: ControlPlane, namespace: NamespaceFactory) -> None:
    path = f"/api/v1/namespaces/{namespace(apiserver)}/configmaps"
    version = apiserver.client.get(path).body["metadata"]["resourceVersion"]
    apiserver.client.post(path, CONFIG_MAP)
    apiserver.client.delete(f"{path}/here")
    events = apiserver.client.watch(path, params={"resourceVersion": version})
    assert [next(events).type, next(events).type] == ["ADDED", "DELETED"]
    events.close()


def test_one_client_serves_many_threads(
    apiserver: ControlPlane, namespace: NamespaceFactory
) -> None:
    path = f"/api/v1/namespaces/{namespace(apiserver)}/configmaps"

    def make(number: int) -> int:
        body = {"metadata": {"name": f"from-{number}"}}
        return apiserver.client.post(path, body).status

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(make, range(64))) == {201}
    assert len(apiserver.client.get(path).body["items"]) == 64


def test_waiting_says_what_it_last_saw() -> None:
    with pytest.raises(TimeoutError, match=r"the answer not true within 0 s; last: \[\]"):
        wait_until(list, timeout=0, what="the answer")


def test_kubectl_works(apiserver: ControlPlane, namespace: NamespaceFactory) -> None:
    name = namespace(apiserver)
    manifest = json.dumps({"apiVersion": "v1", "kind": "ConfigMap"} | CONFIG_MAP)
    apiserver.kubectl("apply", f"--namespace={name}", "--filename=-", stdin=manifest)
    shown = apiserver.kubectl("get", "configmaps", f"--namespace={name}", "--output=name")
    assert "configmap/here" in shown.stdout
    with pytest.raises(AssertionError, match="NotFound"):
        apiserver.kubectl("get", "configmap", "nowhere")


def test_every_request_is_audited_when_asked() -> None:
    with ControlPlane(Options(audit_level="RequestResponse")) as plane:
        plane.client.post("/api/v1/namespaces/default/configmaps", CONFIG_MAP)
        events = [json.loads(line) for line in plane.audit_log.read_text().splitlines()]
    (made,) = [
        event
        for event in events
        if event["verb"] == "create" and event.get("objectRef", {}).get("name") == "here"
    ]
    assert made["requestObject"]["data"] == made["responseObject"]["data"] == {"a": "1"}


def test_two_control_planes_run_at_once_and_share_nothing() -> None:
    with ControlPlane() as one, ControlPlane() as other:
        one.client.post("/api/v1/namespaces/default/configmaps", CONFIG_MAP)
        assert other.client.get("/api/v1/namespaces/default/configmaps").body["items"] == []


def test_a_start_that_fails_shows_the_end_of_the_log() -> None:
    plane = ControlPlane(Options(feature_gates={"NoSuchGate": True}))
    with pytest.raises(ServerFailedError, match="unrecognized feature gate: NoSuchGate"), plane:
        pass
    assert not plane.folder.exists()


def test_nothing_outlives_a_test_process_that_is_killed() -> None:
    program = (
        "import time\n"
        "from tests.controlplane.plane import ControlPlane\n"
        "plane = ControlPlane()\n"
        "plane.start()\n"
        "print(plane.folder, *plane.pids().values(), flush=True)\n"
        "time.sleep(600)\n"
    )
    root = Path(__file__).parents[2]
    with subprocess.Popen(
        [sys.executable, "-c", program], cwd=root, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        folder, *pids = process.stdout.readline().split()
        assert all(_runs(int(pid)) for pid in pids)
        process.send_signal(signal.SIGKILL)
    assert len(pids) == 2
    wait_until(lambda: not any(_runs(int(pid)) for pid in pids))
    wait_until(lambda: not Path(folder).exists())


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    # Where no init reaps it, a killed orphan stays as a zombie.
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"

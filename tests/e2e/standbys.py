"""Two genguards that stand for two pods, and a Service that leads to the active one."""

import time
from base64 import b64encode
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import manifests
from tests.beside import Beside
from tests.controlplane.client import Client, wait_until
from tests.controlplane.plane import ControlPlane
from tests.e2e.account import Account
from tests.e2e.balancer import Balancer
from tests.e2e.genguard import Genguard
from webhook.cluster.connection import POD_NAME
from webhook.cluster.standby import ACTIVE
from webhook.manifest.rendering import Choices, render

NAMES = ("genguard-a", "genguard-b")
_SEEN_SECONDS = 0.05
"""How often the Service is looked at: less than EndpointSlices and kube-proxy need."""
_PAIR = dict.fromkeys(("tls.crt", "tls.key", "ca.crt"), b"")

Json = dict[str, Any]


class Pod:
    """A Pod object without a node, and the process that would run in it."""

    def __init__(self, plane: ControlPlane, namespace: str, name: str) -> None:
        self._client = plane.client
        self._namespace = namespace
        self.name = name
        self.pods = f"/api/v1/namespaces/{namespace}/pods"
        self.path = f"{self.pods}/{name}"
        self.guard: Genguard

    def create(self, guard: Genguard) -> None:
        self.guard = guard
        template = _template(self._namespace)
        (container,) = template["spec"]["containers"]
        container["ports"] = [
            {"name": "webhook", "containerPort": guard.admission_port},
            {"name": "ops", "containerPort": guard.ops_port},
        ]
        body = {
            "metadata": template["metadata"] | {"name": self.name},
            # Without a node it would be deleted at once.
            "spec": template["spec"] | {"nodeName": f"node-of-{self.name}"},
        }
        self._client.post(self.pods, body)

    def tell_ready(self) -> None:
        """What the kubelet says."""
        ready = {"type": "Ready", "status": "True"}
        status = {"podIP": "127.0.0.1", "conditions": [ready]}
        self._client.patch(f"{self.path}/status", {"status": status})

    def delete(self) -> None:
        """Ask for its end, as `kubectl delete pod` and a drain do; the kubelet sends SIGTERM."""
        self._client.delete(self.path)
        self.guard.terminate()

    def remove(self) -> None:
        self._client.delete(self.path, {"gracePeriodSeconds": 0}, check=False)


class _Service(Beside):
    """The Service of manifests/standby: looks at the pods and says where connections go."""

    def __init__(self, plane: ControlPlane, pods: list[Pod]) -> None:
        super().__init__()
        self._client: Client = plane.client_of("admin")
        self._pods = {one.name: one for one in pods}
        self.active: tuple[str, ...] = ()
        self.since = 0.0
        """When it began to lead there, by time.monotonic."""

    def _run(self) -> None:
        (path,) = {one.pods for one in self._pods.values()}
        selector = {"labelSelector": f"{ACTIVE}=true"}
        while not self._over.wait(_SEEN_SECONDS):
            items = self._client.get(path, params=selector).body["items"]
            ready = [one for one in items if _is_ready(one)]
            stay = [one for one in ready if "deletionTimestamp" not in one["metadata"]]
            active = tuple(one["metadata"]["name"] for one in stay or ready)
            if active != self.active:
                self.active, self.since = active, time.monotonic()
        self._client.close()

    def __iter__(self) -> Iterator[int]:
        return self

    def __next__(self) -> int:
        """The port of the next connection."""
        active = self.active
        if not active:
            raise ConnectionRefusedError("no endpoint")
        return self._pods[active[0]].guard.admission_port


class Standbys:
    """What `registered` asks of a Genguard, and the two pods."""

    def __init__(self, pods: list[Pod], service: _Service, port: Balancer, ca: bytes) -> None:
        self._pods, self._service, self._port = pods, service, port
        self.ca_bundle = b64encode(ca).decode()

    def url(self, path: str) -> str:
        return f"https://127.0.0.1:{self._port.port}/{path}"

    def metric(self, name: str, **labels: str) -> float:
        return self.active.guard.metric(name, **labels)

    @property
    def active(self) -> Pod:
        """The pod to which the Service leads."""
        wait_until(lambda: len(self._service.active) == 1, what="one active pod")
        return next(one for one in self._pods if one.name == self._service.active[0])

    def lead_to(self, pod: Pod) -> bool:
        """Whether the API server has a connection to a pod; the leader connects by itself."""
        return self._port.leads_to(pod.guard.admission_port)

    @property
    def since(self) -> float:
        """When it became active, by time.monotonic."""
        return self._service.since

    @property
    def other(self) -> Pod:
        active = self.active
        return next(one for one in self._pods if one is not active)


def _template(namespace: str) -> Json:
    documents = render(Choices(namespace=namespace), manifests.read, _PAIR)
    (found,) = (one for one in documents if one["kind"] == "Deployment")
    template: Json = found["spec"]["template"]
    return template


def _is_ready(pod: Json) -> bool:
    conditions = pod["status"].get("conditions", ())
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


@contextmanager
def standing_by(
    plane: ControlPlane, owner: Account, certs: Path, *flags: str
) -> Iterator[Standbys]:
    """Run them, until one is active and the other ready."""
    pods = [Pod(plane, owner.namespace, name) for name in NAMES]
    with ExitStack() as stack:
        for one in pods:
            given = (
                f"--kubeconfig={owner.kubeconfig}",
                f"--cert-dir={certs}",
                "--findings-configmap=genguard-findings",
                "--standby",
                *flags,
            )
            guard = stack.enter_context(Genguard(*given, environment={POD_NAME: one.name}))
            one.create(guard)
            stack.callback(one.remove)
            one.tell_ready()
        service = stack.enter_context(_Service(plane, pods))
        port = stack.enter_context(Balancer(service))
        found = Standbys(pods, service, port, (certs / "ca.crt").read_bytes())
        _ = found.active
        yield found


class StatusWriter(Beside):
    """Writes a status again and again, and remembers which writes came out as they were sent."""

    def __init__(self, plane: ControlPlane, path: str, pause: float) -> None:
        super().__init__()
        self._client: Client = plane.client_of("admin")
        self._path = f"{path}/status"
        self._pause = pause
        self.unguarded: list[float] = []
        """When those were sent from which the value was lost, by time.monotonic."""
        self.slowest = 0.0
        self.written = 0
        self.failures: list[str] = []

    def _run(self) -> None:
        while not self._over.wait(self._pause):
            body = {"status": {"observedGeneration": 1, "replicas": self.written % 2}}
            began = time.monotonic()
            try:
                answer = self._client.patch(self._path, body)
            except Exception as error:
                self.failures.append(f"{type(error).__name__}: {error}")
                continue
            self.written += 1
            self.slowest = max(self.slowest, time.monotonic() - began)
            if answer.body["status"].get("observedGeneration") != 1:
                self.unguarded.append(began)
        self._client.close()

    def more(self, writes: int) -> None:
        """Wait for so many more."""
        target = self.written + writes
        wait_until(lambda: self.written >= target, what=f"{writes} more writes")

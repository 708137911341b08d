"""What install makes in a cluster, as its tests look at it and clean it up."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.controlplane.client import wait_until
from tests.controlplane.plane import ControlPlane
from tests.e2e.genguard import Genguard
from tests.e2e.kubelet import SYSTEM
from tests.e2e.verbs import run

API = "/apis/admissionregistration.k8s.io/v1"
REGISTRATIONS = {
    "intent": f"{API}/mutatingwebhookconfigurations/0--genguard-intent",
    "mutate": f"{API}/mutatingwebhookconfigurations/zzzzzz-genguard-mutate",
    "outcome": f"{API}/validatingwebhookconfigurations/zzzzzz-genguard-outcome",
}
LOOKED_AT = (
    "/api/v1/namespaces",
    "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    f"{API}/mutatingwebhookconfigurations",
    f"{API}/validatingwebhookconfigurations",
)


@contextmanager
def left_as_it_was(plane: ControlPlane) -> Iterator[None]:
    """Nothing of genguard's before, and nothing after."""
    before = there(plane)
    yield
    if (home := f"/api/v1/namespaces/{SYSTEM}") in there(plane):
        run(plane, "uninstall", "--yes")
        # It stays where the test has put something of its own into it.
        plane.client.delete(home, check=False)
    for phase in registered(plane):
        plane.client.delete(REGISTRATIONS[phase])
    wait_until(lambda: there(plane) == before, what="everything gone")


def there(plane: ControlPlane) -> set[str]:
    """Every object of the whole cluster that install could have made, and every namespace."""
    lists = {path: plane.client.get(path).body["items"] for path in LOOKED_AT}
    return {f"{path}/{one['metadata']['name']}" for path in lists for one in lists[path]}


def registered(plane: ControlPlane) -> list[str]:
    found = {phase: plane.client.get(path, check=False) for phase, path in REGISTRATIONS.items()}
    return [phase for phase, answer in found.items() if answer.status == 200]


def webhook(plane: ControlPlane, phase: str) -> dict[str, Any]:
    found: dict[str, Any] = plane.client.get(REGISTRATIONS[phase]).body["webhooks"][0]
    return found


def outside(guard: Genguard) -> list[str]:
    return [f"--url={guard.url('')}", f"--ca-file={guard.folder}/certs/ca.crt"]

"""`genguard publish-status` on a real API server: when it writes, and what it leaves to others."""

import json
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.controlplane.client import APPLY_PATCH, wait_until
from tests.controlplane.fixtures import NamespaceFactory
from tests.controlplane.granting import SYSTEM, granted
from tests.controlplane.plane import ControlPlane
from tests.e2e.account import Account
from tests.e2e.custom import defined
from tests.e2e.genguard import ROOT
from tests.e2e.verbs import Verb, run

GROUP = "publish.genguard.io"
MANAGER = "genguard-publish-status"
OPTED_IN = {"genguard.io/publish-status": "true"}


@pytest.fixture(scope="module")
def plane(apiserver: ControlPlane) -> Iterator[ControlPlane]:
    """An API server with a custom resource whose conditions are a list map."""
    text = Path(__file__).with_name("gizmos.yaml").read_text()
    with defined(apiserver, yaml.safe_load(text)):
        yield apiserver


class Gizmos:
    """Gizmos of one namespace, and what a controller does to them."""

    def __init__(self, plane: ControlPlane, namespace: str) -> None:
        self.client = plane.client
        self.namespace = namespace
        self.path = f"/apis/{GROUP}/v1/namespaces/{namespace}/gizmos"

    def create(self, name: str = "one", **labels: str) -> dict[str, Any]:
        body = {
            "apiVersion": f"{GROUP}/v1",
            "kind": "Gizmo",
            "metadata": {"name": name, "labels": labels},
            "spec": {"size": 1},
        }
        made: dict[str, Any] = self.client.post(self.path, body).body
        return made

    def get(self, name: str = "one") -> dict[str, Any]:
        found: dict[str, Any] = self.client.get(f"{self.path}/{name}").body
        return found

    def change(self, name: str = "one", **fields: Any) -> dict[str, Any]:
        found: dict[str, Any] = self.client.patch(f"{self.path}/{name}", fields).body
        return found

    def report(self, name: str = "one", **status: Any) -> dict[str, Any]:
        """A controller writes its own fields of status, and leaves the others."""
        found: dict[str, Any] = self.client.patch(
            f"{self.path}/{name}/status",
            {"status": status},
            params={"fieldManager": "its-controller"},
        ).body
        return found

    def conditions(self, name: str = "one") -> dict[str, dict[str, Any]]:
        status = self.get(name).get("status") or {}
        return {one["type"]: one for one in status.get("conditions") or ()}

    def until(self, name: str = "one", **wanted: str) -> dict[str, dict[str, Any]]:
        """Wait until conditions have these statuses, and nothing else is there.

        A status of several words is any of them.
        """

        def reached() -> dict[str, dict[str, Any]] | None:
            found = self.conditions(name)
            is_so = found.keys() == wanted.keys() and all(
                one["status"] in wanted[key].split("|") for key, one in found.items()
            )
            return found if is_so else None

        return wait_until(reached, what=f"{name} with {wanted}")

    def events(self) -> list[dict[str, Any]]:
        path = f"/apis/events.k8s.io/v1/namespaces/{self.namespace}/events"
        found = self.client.get(path).body["items"]
        return [one for one in found if one["reason"] == "StatusNotPublished"]


@pytest.fixture
def gizmos(plane: ControlPlane, namespace: NamespaceFactory) -> Gizmos:
    return Gizmos(plane, namespace(plane))


@contextmanager
def publishing(plane: ControlPlane, gizmos: Gizmos) -> Iterator[Verb]:
    """The verb as a process of its own, with a Lease in the namespace of the objects."""
    where = (f"--namespace={gizmos.namespace}", f"--lease-namespace={gizmos.namespace}")
    with Verb(plane, "publish-status", *where, f"gizmos.{GROUP}") as verb:
        try:
            yield verb
        except BaseException as error:
            error.add_note(f"what it logged:\n{verb.err}")
            raise


@contextmanager
def publishing_as_installed(plane: ControlPlane, folder: Path) -> Iterator[Verb]:
    """The verb with the arguments, the account and the rights of manifests/publish-status."""
    component = ROOT / "manifests" / "publish-status"
    rights = list(yaml.safe_load_all((component / "access.yaml").read_text("utf-8")))
    for one in rights:
        if one["kind"] == "ClusterRoleBinding":
            # No controller runs that aggregates: the parts are bound one by one.
            one["roleRef"]["name"] = "genguard-publish-status-base"
    role = "genguard-publish-gizmos"
    own = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": role},
        "rules": [
            {"apiGroups": [GROUP], "resources": ["gizmos"], "verbs": ["get", "list", "watch"]},
            {"apiGroups": [GROUP], "resources": ["gizmos/status"], "verbs": ["patch"]},
        ],
    }
    (binding,) = [one for one in rights if one["kind"] == "ClusterRoleBinding"]
    bound = binding | {"metadata": {"name": role}, "roleRef": binding["roleRef"] | {"name": role}}
    workload = yaml.safe_load((component / "deployment.yaml").read_text("utf-8"))
    (container,) = workload["spec"]["template"]["spec"]["containers"]
    verb, *words = (one for one in container["args"] if not one.startswith("--kubeconfig"))
    with granted(plane, [*rights, own, bound]):
        account = Account(plane, SYSTEM, folder / "kubeconfig", "genguard-publish-status")
        words += [f"gizmos.{GROUP}", f"--kubeconfig={account.kubeconfig}"]
        with Verb(plane, verb, *words) as run:
            yield run
        account.client.close()


def log_lines(verb: Verb, message: str) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in verb.err.splitlines()]
    return [one for one in lines if one["message"] == message]


def logged(verb: Verb, message: str) -> dict[str, Any]:
    found: Callable[[], list[dict[str, Any]]] = lambda: log_lines(verb, message)  # noqa: E731
    return wait_until(found, what=message)[0]


def test_it_writes_each_verdict_once_and_nothing_else(plane: ControlPlane, gizmos: Gizmos) -> None:
    gizmos.create(**OPTED_IN)
    gizmos.create("other")
    with publishing(plane, gizmos) as verb:
        gizmos.report(observedGeneration=1)
        found = gizmos.until(Ready="True", Settled="True")
        assert found["Ready"]["reason"] == "Ready"
        assert found["Ready"]["observedGeneration"] == 1
        entries = gizmos.get()["metadata"]["managedFields"]
        (mine,) = [one for one in entries if one["manager"] == MANAGER]
        assert (mine["operation"], mine["subresource"]) == ("Apply", "status")
        before = gizmos.get()["metadata"]["resourceVersion"]

        gizmos.change(spec={"size": 2})
        # Unknown if it saw the change itself, False if it began to lead since.
        found = gizmos.until(Ready="False|Unknown", Settled="False")
        assert found["Settled"]["observedGeneration"] == 2
        assert "status.observedGeneration" in found["Settled"]["message"]
        gizmos.report(observedGeneration=2)
        gizmos.until(Ready="True", Settled="True")
        assert gizmos.get()["metadata"]["resourceVersion"] != before

        # A write that changes no verdict is not answered by another one.
        calm = gizmos.change(metadata={"annotations": {"calm": "yes"}})["metadata"]
        gizmos.create("later", **OPTED_IN)
        gizmos.until("later", Ready="True", Settled="True")
        assert gizmos.get()["metadata"]["resourceVersion"] == calm["resourceVersion"]
        assert gizmos.conditions("other") == {}
        verb.send(signal.SIGTERM)
        assert verb.end().code == 0
    assert not log_lines(verb, "status not published"), verb.err


def test_a_condition_of_its_controller_is_left_to_it_and_the_other_is_written(
    plane: ControlPlane, gizmos: Gizmos
) -> None:
    gizmos.create(**OPTED_IN)
    theirs = {
        "type": "Ready",
        "status": "False",
        "reason": "Starting",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    gizmos.report(observedGeneration=1, conditions=[theirs])
    with publishing(plane, gizmos) as verb:
        gizmos.until(Ready="False", Settled="False")
        line = logged(verb, "condition is written by somebody else: left to it")
        assert (line["condition"], line["writer"]) == ("Ready", "its-controller")
        assert gizmos.conditions()["Ready"] == theirs
        gizmos.report(conditions=[theirs | {"status": "True"}, gizmos.conditions()["Settled"]])
        gizmos.until(Ready="True", Settled="True")
        assert gizmos.events() == []


def test_of_two_only_the_leader_writes_and_the_other_takes_over(
    plane: ControlPlane, gizmos: Gizmos
) -> None:
    with publishing(plane, gizmos) as first:
        logged(first, "leading")
        with publishing(plane, gizmos) as second:
            logged(second, "following")
            gizmos.create(**OPTED_IN)
            gizmos.until(Ready="True", Settled="True")
            assert not log_lines(second, "status published")
            first.send(signal.SIGTERM)
            assert first.end().code == 0
            logged(second, "leading")
            gizmos.change(spec={"size": 2})
            gizmos.report(observedGeneration=1)
            gizmos.until(Ready="False|Unknown", Settled="False")
            assert logged(second, "status published")["settled"] == "False"


def test_the_third_place_of_reconciled_generation_is_never_stored(
    plane: ControlPlane, gizmos: Gizmos
) -> None:
    """metadata.status is no field of ObjectMeta; status.meta is stored where a schema has it."""
    gizmos.create()
    stored = gizmos.report(
        observedGeneration=1, reconciledGeneration=1, meta={"reconciledGeneration": 1}
    )
    assert stored["status"]["meta"] == {"reconciledGeneration": 1}
    gizmos.change(metadata={"status": {"reconciledGeneration": 1}})
    assert "status" not in gizmos.get()["metadata"]
    gizmos.report(reconciledGeneration=None, meta={"reconciledGeneration": 0})
    out = run(plane, "status", f"gizmos.{GROUP}/one", "-n", gizmos.namespace, "-o", "json").out
    assert json.loads(out)["reasons"] == ["status.meta.reconciledGeneration 0, want 1"]
    applied = {"apiVersion": f"{GROUP}/v1", "kind": "Gizmo", "metadata": {"status": {}}}
    answer = plane.client.patch(
        f"{gizmos.path}/one",
        applied,
        content_type=APPLY_PATCH,
        params={"fieldManager": "kubectl", "force": True},
        check=False,
    )
    assert answer.status >= 400, "server-side apply refuses what is not in the schema"


def test_the_rights_of_the_manifests_are_enough_and_it_needs_no_more(
    plane: ControlPlane, gizmos: Gizmos, tmp_path: Path
) -> None:
    gizmos.create(**OPTED_IN)
    with publishing_as_installed(plane, tmp_path) as verb:
        gizmos.report(observedGeneration=1)
        found = gizmos.until(Ready="True", Settled="True")
        gizmos.report(conditions=[found["Settled"]])
        wait_until(gizmos.events, what="an Event")
        verb.send(signal.SIGTERM)
        assert verb.end().code == 0
    refusals = [
        one for one in verb.err.splitlines() if "forbidden" in one or '"status": 403' in one
    ]
    assert refusals == []

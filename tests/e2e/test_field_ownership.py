"""Who owns, for server-side apply, each field that genguard sets or restores: docs/ownership.md."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from genguard.blame.managed import owners
from tests.controlplane.client import APPLY_PATCH, JSON_PATCH
from tests.controlplane.fixtures import NamespaceFactory
from tests.controlplane.plane import ControlPlane
from tests.controlplane.webhook_listener import WebhookListener
from tests.e2e.culprits import OLD_OPERATOR, deployment, zeroes_observed_generation
from tests.e2e.custom import served
from tests.e2e.genguard import Genguard
from tests.e2e.registrations import registered, rule
from tests.e2e.test_custom_resources import learned

OBSERVED = ("status", "observedGeneration")
GENERATION = ("metadata", "generation")
CONTROLLER = "its-controller"
OTHER = "somebody-else"
GROUP = "ownership.genguard.io"


@pytest.fixture(scope="module")
def guard(apiserver: ControlPlane) -> Iterator[Genguard]:
    """An enforcing genguard with every rule that patches."""
    flags = ("--generation-patch=always", f"--flip-status=widgets.{GROUP}")
    with Genguard(f"--kubeconfig={apiserver.kubeconfig}", *flags) as running:
        yield running


@contextmanager
def written(plane: ControlPlane, guard: Genguard, namespace: str) -> Iterator["Web"]:
    """A Deployment of a namespace that genguard guards."""
    with registered(plane, namespace, guard):
        yield Web(plane, namespace)


class Web:
    """The Deployment `web`, whose status this test writes: no controller runs."""

    def __init__(self, plane: ControlPlane, namespace: str) -> None:
        self.client = plane.client
        self.path = f"/apis/apps/v1/namespaces/{namespace}/deployments"
        self.client.post(self.path, deployment("web"), params={"fieldManager": "kubectl-create"})

    def get(self) -> dict[str, Any]:
        found: dict[str, Any] = self.client.get(f"{self.path}/web").body
        return found

    def update(self, manager: str, **status: Any) -> dict[str, Any]:
        """Replace the status, as a controller by UpdateStatus."""
        body = self.get() | {"status": status}
        found: dict[str, Any] = self.client.put(
            f"{self.path}/web/status", body, params={"fieldManager": manager}
        ).body
        return found

    def apply(self, manager: str, *, force: bool = False, **status: Any) -> tuple[int, Any]:
        """Apply a status, as a controller by ApplyStatus; return HTTP status and answer."""
        body = {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "web"},
            "status": status,
        }
        answer = self.client.patch(
            f"{self.path}/web/status",
            body,
            content_type=APPLY_PATCH,
            params={"fieldManager": manager, "force": force},
            check=False,
        )
        return answer.status, answer.body


def owned(document: dict[str, Any], place: tuple[str, ...]) -> list[tuple[str, str]]:
    """Manager and operation of each owner of a field, in the order of their names."""
    found = owners(document).get(place, ())
    return sorted((one.manager, one.through) for one in found)


def test_nobody_owns_what_an_update_cleared_and_genguard_restored(
    apiserver: ControlPlane, namespace: NamespaceFactory, guard: Genguard
) -> None:
    with written(apiserver, guard, namespace(apiserver)) as web:
        found = web.update(CONTROLLER, observedGeneration=1, replicas=2)
        assert owned(found, OBSERVED) == [(CONTROLLER, "Update /status")]
        found = web.update(OTHER, replicas=3)
        assert found["status"]["observedGeneration"] == 1, "genguard restored it"
        assert owned(found, OBSERVED) == []
        # So the next one who applies it meets no conflict, whatever the value.
        status, found = web.apply("a-third", observedGeneration=5)
        assert (status, owned(found, OBSERVED)) == (200, [("a-third", "Apply /status")])


def test_an_apply_cannot_remove_it_but_gives_it_up_and_may_take_it_again(
    apiserver: ControlPlane, namespace: NamespaceFactory, guard: Genguard
) -> None:
    with written(apiserver, guard, namespace(apiserver)) as web:
        status, found = web.apply(CONTROLLER, observedGeneration=1, replicas=2)
        assert (status, owned(found, OBSERVED)) == (200, [(CONTROLLER, "Apply /status")])
        status, found = web.apply(CONTROLLER, replicas=3)
        assert (status, found["status"]["observedGeneration"]) == (200, 1)
        assert owned(found, OBSERVED) == []
        status, found = web.apply(CONTROLLER, observedGeneration=2, replicas=3)
        assert (status, found["status"]["observedGeneration"]) == (200, 2)
        assert owned(found, OBSERVED) == [(CONTROLLER, "Apply /status")]


def test_what_another_webhook_cleared_on_the_way_belongs_to_the_requester(
    apiserver: ControlPlane, namespace: NamespaceFactory, guard: Genguard
) -> None:
    name = namespace(apiserver)
    with (
        WebhookListener(apiserver.authority, zeroes_observed_generation) as culprit,
        culprit.registered(apiserver, name, ["deployments/status"], name=OLD_OPERATOR),
        written(apiserver, guard, name) as web,
    ):
        found = web.update(CONTROLLER, observedGeneration=1, replicas=2)
        assert found["status"]["observedGeneration"] == 1, "genguard restored it"
        assert owned(found, OBSERVED) == [(CONTROLLER, "Update /status")]
        # As without any webhook: both own the same value, and another value is a conflict.
        status, found = web.apply(OTHER, observedGeneration=1)
        assert (status, found["status"]["observedGeneration"]) == (200, 1)
        assert owned(found, OBSERVED) == [(CONTROLLER, "Update /status"), (OTHER, "Apply /status")]
        status, answer = web.apply(OTHER, observedGeneration=2)
        assert status == 409
        assert f'conflict with "{CONTROLLER}"' in answer["message"]


def test_the_generation_is_never_owned(
    apiserver: ControlPlane, namespace: NamespaceFactory, guard: Genguard
) -> None:
    with written(apiserver, guard, namespace(apiserver)) as web:
        found = web.get()
        assert found["metadata"]["generation"] == 1
        assert owned(found, GENERATION) == []


def test_flipped_conditions_stay_with_those_who_own_them(
    apiserver: ControlPlane, namespace: NamespaceFactory, guard: Genguard
) -> None:
    name = namespace(apiserver)
    watched = rule(["widgets"], ["CREATE", "UPDATE"])
    with (
        registered(apiserver, name, guard, rules=[watched]),
        served(apiserver, name, status_subresource=False, group=GROUP) as widgets,
    ):
        learned(guard, widgets)
        ready = {"type": "Ready", "status": "True"}
        apiserver.client.post(
            widgets.path,
            widgets.body(spec={"size": 1}, status={"conditions": [ready]}),
            params={"fieldManager": CONTROLLER},
        )
        found = apiserver.client.patch(
            f"{widgets.path}/one",
            widgets.body(spec={"size": 2}),
            content_type=APPLY_PATCH,
            params={"fieldManager": "kubectl", "force": True},
        ).body
        flipped = {one["type"]: one["status"] for one in found["status"]["conditions"]}
        assert flipped == {"Ready": "Unknown", "Settled": "False"}
        claims = {
            one["manager"]: "f:conditions" in one["fieldsV1"].get("f:status", {})
            for one in found["metadata"]["managedFields"]
        }
        assert claims == {CONTROLLER: True, "kubectl": False}


def test_a_healed_value_belongs_to_genguard_until_its_writer_updates_or_forces_it(
    apiserver: ControlPlane, namespace: NamespaceFactory
) -> None:
    """`serve --heal` sends a JSON Patch of its own: e2e/test_healing.py."""
    web = Web(apiserver, namespace(apiserver))
    patch = [{"op": "add", "path": "/status/observedGeneration", "value": 1}]

    def heal() -> dict[str, Any]:
        found: dict[str, Any] = apiserver.client.patch(
            f"{web.path}/web/status",
            patch,
            content_type=JSON_PATCH,
            params={"fieldManager": "genguard"},
        ).body
        assert owned(found, OBSERVED) == [("genguard", "Update /status")]
        return found

    web.update(CONTROLLER, replicas=2)
    heal()
    found = web.update(CONTROLLER, replicas=2, observedGeneration=2)
    assert owned(found, OBSERVED) == [(CONTROLLER, "Update /status")]
    web.update(OTHER, replicas=2)
    heal()
    status, answer = web.apply(CONTROLLER, observedGeneration=2)
    assert status == 409
    assert 'conflict with "genguard"' in answer["message"]
    status, answer = web.apply(CONTROLLER, force=True, observedGeneration=2)
    assert (status, owned(answer, OBSERVED)) == (200, [(CONTROLLER, "Apply /status")])

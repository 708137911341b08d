"""MutatingAdmissionPolicies are learned from the API server, in whatever version it serves them."""

import asyncio
import json
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from functools import partial

import pytest

from genguard.admission.matching import BINDING, POLICY
from genguard.detection.mutators import Mutators
from genguard.review_setup import ReviewOptions, ReviewSetup
from tests.controlplane.options import Options
from tests.controlplane.plane import ControlPlane
from tests.unit.detection.policies import binding, policy
from tests.waiting import patiently, until
from webhook.cluster.cluster_watch import watch_cluster
from webhook.cluster.connection import connected
from webhook.cluster.coverage import Coverage
from webhook.cluster.discovery import path_if_served
from webhook.cluster.rest import Rest
from webhook.cluster.watch import Change, ChangeKind, Collection
from webhook.tasks.supervisor import Supervisor
from webhook.telemetry.metrics import Metrics

_GATE = {"MutatingAdmissionPolicy": True}


def path(kind: str, version: str = "v1") -> str:
    plural = {POLICY: "mutatingadmissionpolicies", BINDING: "mutatingadmissionpolicybindings"}
    return f"/apis/admissionregistration.k8s.io/{version}/{plural[kind]}"


def create(plane: ControlPlane, name: str, version: str = "v1") -> None:
    for kind, found in ((POLICY, policy(name)), (BINDING, binding(name))):
        body = found | {"apiVersion": f"admissionregistration.k8s.io/{version}"}
        body["spec"] = {**body["spec"]}
        if kind == POLICY:
            body["spec"]["reinvocationPolicy"] = "Never"
        plane.client.post(path(kind, version), body)


async def first(plane: ControlPlane, kind: str) -> list[str]:
    """The names of the first state that is told."""
    async with (
        connected(str(plane.kubeconfig)) as api,
        aclosing(changes_of(Rest(api), kind)) as changes,
        patiently(),
    ):
        found = []
        async for change in changes:
            if change.what is ChangeKind.CAUGHT_UP:
                break
            found.append(json.loads(bytes(change.object["metadata"]))["name"])
        return found


def changes_of(rest: Rest, kind: str) -> AsyncGenerator[Change, None]:
    resource = path(kind).rpartition("/")[2] + ".admissionregistration.k8s.io"
    return Collection(rest, partial(path_if_served, rest, resource)).changes()


async def test_a_policy_is_learned_when_it_is_bound_and_forgotten_with_its_binding(
    apiserver: ControlPlane,
) -> None:
    mutators, setup, metrics = Mutators(), ReviewSetup(ReviewOptions()), Metrics(lambda *_: True)

    def known() -> list[str]:
        return [one.name for one in mutators.policies]

    async with (
        connected(str(apiserver.kubeconfig)) as api,
        watch_cluster(
            Rest(api),
            setup,
            mutators,
            coverage=Coverage(),
            metrics=metrics,
            supervisor=Supervisor(),
        ),
    ):
        await asyncio.to_thread(create, apiserver, "learned")
        await until(lambda: known() == ["learned"])
        await asyncio.to_thread(apiserver.client.delete, f"{path(BINDING)}/learned-everywhere")
        await until(lambda: not known())
    apiserver.client.delete(f"{path(POLICY)}/learned")


@pytest.fixture(scope="module", params=["v1beta1", "v1alpha1"])
def older(request: pytest.FixtureRequest) -> Iterator[tuple[ControlPlane, str]]:
    version = request.param
    options = Options(
        emulated_version="1.34",
        feature_gates=_GATE,
        # Emulated or not, the plugin of this binary itself asks for v1 and waits for it.
        admission_off=("MutatingAdmissionPolicy",),
        runtime_config={f"admissionregistration.k8s.io/{version}": "true"},
    )
    with ControlPlane(options) as plane:
        yield plane, version


async def test_older_servers_that_serve_them_are_asked_in_their_version(
    older: tuple[ControlPlane, str],
) -> None:
    plane, version = older
    create(plane, "old", version)
    assert await first(plane, POLICY) == ["old"]
    assert await first(plane, BINDING) == ["old-everywhere"]


async def test_a_server_without_policies_is_not_asked_again_at_once() -> None:
    with ControlPlane(Options(emulated_version="1.34")) as plane:
        assert await first(plane, POLICY) == []
        async with connected(str(plane.kubeconfig)) as api:
            changes = changes_of(Rest(api), POLICY)
            assert (await anext(changes)).what is ChangeKind.CAUGHT_UP
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.5):  # meant: nothing comes
                    await anext(changes)

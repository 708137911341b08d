"""`genguard serve --registrations follow` on a real API server: phases come and go with need."""

import time
from collections.abc import Iterator
from typing import Any

import pytest

from genguard.admission.matching import Writes, may_match
from tests.beside import Again
from tests.controlplane.client import Client, wait_until
from tests.controlplane.fixtures import NamespaceFactory
from tests.controlplane.plane import ControlPlane
from tests.controlplane.webhook_listener import WebhookListener
from tests.e2e.culprits import OLD_OPERATOR, deployment, zeroes_observed_generation
from tests.e2e.custom import served
from tests.e2e.genguard import Genguard
from tests.e2e.registrations import registered
from tests.nightly import by_day
from tests.waiting import PATIENCE
from webhook.cluster.registrations import KEPT_SECONDS

_API = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
_STATUS = Writes("apps", "deployments/status", "UPDATE")
_SECONDS_TO_WIDEN = 2.0
Json = dict[str, Any]


def is_called(client: Client, name: str, writes: Writes, at: int = 0) -> bool:
    """Whether the first webhook of a configuration, or another, has a rule for such writes."""
    found: Json = client.get(f"{_API}/{name}").body
    return may_match(found["webhooks"][at].get("rules", ()), writes)


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    """One of its own: the webhooks of other tests would need the phases as well."""
    with ControlPlane() as started:
        yield started


def controller(client: Client, path: str, written: list[float]) -> Again:
    """A controller that reports its status ten times a second, and when it did."""

    def report(turn: int) -> None:
        status = {"observedGeneration": 1, "replicas": turn % 2}
        client.patch(f"{path}/status", {"status": status})
        written.append(time.time())

    return Again(report, 0.1)


@pytest.mark.parametrize("mode", by_day(["--audit-only", "--events"], these=["--events"]))
def test_a_phase_goes_when_nobody_needs_it_and_is_back_before_a_new_webhook_has_done_much(
    plane: ControlPlane, namespace: NamespaceFactory, mode: str
) -> None:
    where, client = namespace(plane), plane.client
    path = f"/apis/apps/v1/namespaces/{where}/deployments"
    client.post(path, deployment())
    flags = f"--kubeconfig={plane.kubeconfig}", "--registrations=follow", mode
    with Genguard(*flags) as guard, registered(plane, where, guard, suffix="") as names:
        intent, mutate = names["intent"], names["mutate"]
        assert is_called(client, intent, _STATUS)
        wait_until(
            lambda: not is_called(client, intent, _STATUS),
            timeout=KEPT_SECONDS + PATIENCE,
            what="/intent taken away",
        )
        # The two registrations are changed one after the other.
        wait_until(
            lambda: (
                not is_called(client, mutate, _STATUS)
                and is_called(client, mutate, _STATUS, at=1) == (mode != "--audit-only")
            ),
            what="/mutate follows its own need",
        )
        user = client.as_user("widget-controller", ["system:masters"], "")
        written: list[float] = []
        with (
            controller(user, f"{path}/web", written),
            WebhookListener(plane.authority, zeroes_observed_generation) as listener,
        ):
            wait_until(lambda: len(written) > 5, what="a controller that writes")
            began = time.time()
            with listener.registered(plane, where, ["deployments/status"], name=OLD_OPERATOR):
                wait_until(lambda: is_called(client, intent, _STATUS), what="/intent again")
                assert time.time() - began < _SECONDS_TO_WIDEN + 1  # it began before it was stored
                named = f"{OLD_OPERATOR}/reviews.example.org"

                def found() -> Json | None:
                    return next(
                        (
                            one
                            for one in guard.findings()
                            if one["detector"] == "observed-generation-cleared"
                            and one["actors"][0]["name"] == named
                            and one["severity"] != "info"
                        ),
                        None,
                    )

                wait_until(lambda: found() is not None, what="the webhook named")
                late = sum(one > began for one in written)
                print(f"named after {late} writes, {time.time() - began:.1f} s")
                assert found()["actors"][0]["confidence"] == "certain"


def test_of_a_custom_resource_what_a_write_loses_is_restored_and_no_other_write_costs_a_call(
    plane: ControlPlane, namespace: NamespaceFactory
) -> None:
    where, client = namespace(plane), plane.client
    flags = f"--kubeconfig={plane.kubeconfig}", "--registrations=follow"
    with (
        Genguard(*flags) as guard,
        registered(plane, where, guard, suffix="") as names,
        served(plane, where, status_subresource=True) as widgets,
    ):
        status = Writes(widgets.group, "widgets/status", "UPDATE")
        path = f"{widgets.path}/one/status"
        ready = {"type": "Ready", "status": "True", "observedGeneration": 1}
        widgets.create(spec={"size": 1})

        def write(**fields: Any) -> Json:
            made: Json = client.patch(path, {"status": fields}).body["status"]
            return made

        def calls() -> float:
            labels = {"phase": "mutate", "resource": widgets.resource}
            return guard.metric("genguard_reviews_total", **labels)

        write(observedGeneration=1, conditions=[ready])
        wait_until(lambda: is_called(client, names["mutate"], status, at=1), what="/repair")
        zeroed = {**ready, "observedGeneration": 0}

        def restored() -> bool:
            return write(observedGeneration=0, conditions=[ready])["observedGeneration"] == 1

        wait_until(restored, what="the API server follows the registration")
        assert write(observedGeneration=None, conditions=[zeroed]) == {
            "observedGeneration": 1,
            "conditions": [ready],
        }
        others = [{"type": f"C{number}", "observedGeneration": 1} for number in range(100)]
        write(conditions=[*others, ready])
        assert write(conditions=[*others, zeroed])["conditions"][-1] == ready
        before = calls()
        for turn in range(1_000):
            write(replicas=turn, conditions=[{**ready, "reason": f"R{turn}"}])
        assert calls() == before
        with (
            WebhookListener(plane.authority, zeroes_observed_generation) as listener,
            listener.registered(plane, where, ["widgets/status"], name=OLD_OPERATOR),
        ):
            wait_until(lambda: is_called(client, names["mutate"], status), what="/mutate of each")
            assert not is_called(client, names["mutate"], status, at=1)
            wait_until(
                lambda: write(observedGeneration=1) and guard.findings(), what="the webhook named"
            )

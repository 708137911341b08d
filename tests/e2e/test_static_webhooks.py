"""A real API server with a webhook or a policy in a file (KEP-5793), which no API lists."""

from typing import Any

import pytest

from genguard.formats.lines import LONGEST_LINE, bounded
from genguard.replay import Replay
from genguard.review_setup import ReviewOptions
from tests.controlplane.client import wait_until
from tests.controlplane.options import Options
from tests.e2e.genguard import Genguard
from tests.e2e.registrations import registered
from tests.scenarios.loops_by_static_webhooks import pins_observed_generation
from tests.scenarios.scene import Policy, Scene, StaticHook
from tests.scenarios.stage import CUSTOM, own_plane

NAME = "static"
PINS = StaticHook("pins.static.k8s.io", pins_observed_generation, ("widgets/status",))
PINNING_POLICY = Policy(
    "pins-policy.static.k8s.io",
    ("widgets/status",),
    "request.operation == 'UPDATE'",
    {
        "patchType": "JSONPatch",
        "jsonPatch": {
            "expression": '[JSONPatch{op: "add", path: "/status/observedGeneration", value: 1}]'
        },
    },
)
CULPRIT = ["webhook", "pins.static.k8s.io/reviews.example.org", "likely"]


def stalled(guard: Genguard) -> list[dict[str, Any]]:
    """The findings of a controller that is not heard."""
    found = guard.findings()
    return [one for one in found if one["detector"] == "observed-generation-stalled"]


def actors(guard: Genguard) -> list[list[str]]:
    return [
        [one["type"], one["name"], one["confidence"]]
        for finding in stalled(guard)
        for one in finding["actors"]
    ]


@pytest.mark.slow
@pytest.mark.parametrize("minor", [None, "1.37"], ids=["1.36", "1.37"])
def test_with_its_manifest_it_is_named_and_without_it_nobody_is_certain(minor: str | None) -> None:
    options = Options(minor=minor, audit_level="Request")
    with own_plane([PINS], NAME, options) as own:
        flags = "--audit-only", f"--kubeconfig={own.plane.kubeconfig}"
        with (
            Genguard(*flags, f"--static-webhooks={own.folder}") as told,
            Genguard(*flags) as untold,
            Genguard(*flags, "--static-webhooks=none") as misled,
            registered(own.plane, NAME, told, rules=CUSTOM),
            registered(own.plane, NAME, untold, rules=CUSTOM, suffix="-untold"),
            registered(own.plane, NAME, misled, rules=CUSTOM, suffix="-misled"),
        ):
            widget = Scene(own.plane, NAME).widget()
            for size in range(2, 11):
                seen = widget.spec("deployer", size=size)["metadata"]["generation"]
                widget.status("controller", observedGeneration=seen, replicas=size)
            expected = [CULPRIT, ["user", "controller", "possible"]]
            wait_until(lambda: actors(told) == expected, what="the static webhook named")
            expected = [["user", "controller", "likely"]]
            wait_until(lambda: actors(untold) == expected, what="the controller likely")
            (finding,) = stalled(untold)
            assert "give --static-webhooks" in finding["evidence"][-1]["note"]
            expected = [["user", "controller", "certain"]]
            wait_until(lambda: actors(misled) == expected, what="the controller certain")
        # In an audit log the API server names static webhooks as any other, so no flag is needed.
        with own.plane.audit_log.open("rb") as log:
            run = Replay(ReviewOptions())
            list(run.lines(bounded(log, LONGEST_LINE), "audit.log"))
            list(run.findings())
        assert run.summary()["webhooks"][CULPRIT[1]] > 0


@pytest.mark.slow
@pytest.mark.parametrize("minor", [None, "1.37"], ids=["1.36", "1.37"])
def test_a_policy_in_a_file_is_named_with_its_manifest_and_else_the_requester(
    minor: str | None,
) -> None:
    with own_plane([PINNING_POLICY], NAME, Options(minor=minor)) as own:
        listed = own.plane.client.get(
            "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies"
        ).body["items"]
        assert PINNING_POLICY.name not in {one["metadata"]["name"] for one in listed}
        flags = "--audit-only", f"--kubeconfig={own.plane.kubeconfig}"
        with (
            Genguard(*flags, f"--static-webhooks={own.policies}") as told,
            Genguard(*flags) as untold,
            registered(own.plane, NAME, told, rules=CUSTOM),
            registered(own.plane, NAME, untold, rules=CUSTOM, suffix="-untold"),
        ):
            widget = Scene(own.plane, NAME).widget()
            for size in range(2, 11):
                seen = widget.spec("deployer", size=size)["metadata"]["generation"]
                left = widget.status("controller", observedGeneration=seen, replicas=size)
            assert left["status"]["observedGeneration"] == 1  # the policy acts
            expected = [
                ["policy", PINNING_POLICY.name, "likely"],
                ["user", "controller", "possible"],
            ]
            wait_until(lambda: actors(told) == expected, what="the static policy named")
            expected = [["user", "controller", "likely"]]
            wait_until(lambda: actors(untold) == expected, what="the controller likely")

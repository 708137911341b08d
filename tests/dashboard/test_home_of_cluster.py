"""The home page over a real control plane: red while rollouts hang, green soon after their end.

Seven Deployments. One webhook zeroes observedGeneration of three of them, another overwrites the
replicas of a fourth, and two users write one condition of a fifth. genguard changes nothing.
"""

import asyncio
import json
import re
import shlex
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from typing import Any

import pytest
from playwright.async_api import expect

from tests.controlplane.client import STRATEGIC_MERGE_PATCH, wait_until
from tests.controlplane.fixtures import NamespaceFactory
from tests.controlplane.plane import ControlPlane
from tests.controlplane.webhook_listener import Patch, WebhookListener
from tests.dashboard.browser import chromium, visiting
from tests.e2e.account import Account, account
from tests.e2e.culprits import OLD_OPERATOR, deployment, zeroes_observed_generation
from tests.e2e.genguard import Genguard
from tests.e2e.registrations import registered

HUNG = ("cart", "checkout", "web")
ALL = (*HUNG, "pinned", "torn", "calm", "calmer")
PINS = "nnn-pins-replicas"
CLEARED = "observed-generation-cleared"
PATIENCE = 60_000.0
"""Milliseconds."""
LONG = 300.0
"""Seconds: the findings of the other two loops are resolved when they have been quiet."""
TURNS = 12


@pytest.fixture(scope="module")
def owner(cluster: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Account]:
    """genguard's account, with the rights of the manifests."""
    kubeconfig = tmp_path_factory.mktemp("account") / "kubeconfig"
    with account(cluster, "genguard-home", kubeconfig) as found:
        yield found


def zeroes_three(request: Mapping[str, Any]) -> Patch:
    return zeroes_observed_generation(request) if request["name"] in HUNG else ()


def pins_replicas(request: Mapping[str, Any]) -> Patch:
    if request["name"] != "pinned" or request["operation"] != "UPDATE":
        return ()
    return [{"op": "replace", "path": "/spec/replicas", "value": 1}]


class Scene:
    """A namespace of the cluster, and the genguard that looks on."""

    def __init__(self, plane: ControlPlane, namespace: str, guard: Genguard) -> None:
        self.plane, self.guard = plane, guard
        self.path = f"/apis/apps/v1/namespaces/{namespace}/deployments"

    def get(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self.plane.client.get(f"{self.path}/{name}").body
        return found

    def create(self) -> None:
        for name in ALL:
            self.plane.client.post(self.path, deployment(name, replicas=1))

        def are_available() -> bool:
            return all(self.get(name)["status"].get("availableReplicas") == 1 for name in ALL)

        wait_until(are_available, 120.0, what="available replicas")

    def quarrel(self) -> None:
        """Somebody scales what a webhook pins, and two users write one condition."""
        other = self.plane.client_of("kwok")
        for turn in range(TURNS):
            self.plane.client.patch(f"{self.path}/pinned", {"spec": {"replicas": 3 + turn % 2}})
            for client, word in ((self.plane.client, "True"), (other, "False")):
                condition = {"type": "Healthy", "status": word, "reason": "Checked"}
                client.patch(
                    f"{self.path}/torn/status",
                    {"status": {"conditions": [condition]}},
                    content_type=STRATEGIC_MERGE_PATCH,
                )
            time.sleep(0.3)
        other.close()

    def findings(self) -> list[dict[str, Any]]:
        return self.guard.findings()

    def broken(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.guard.ops("/api/broken")[1])
        return found

    def is_quiet(self) -> bool:
        """Whether all that is left are findings that the clock alone would resolve."""
        left = [one for one in self.findings() if one["state"] != "resolved"]
        return {one["state"] for one in left if one["severity"] != "info"} == {"quiet"}

    def hangs(self) -> bool:
        return all(not self.get(name)["status"].get("observedGeneration") for name in HUNG)


async def test_home_is_red_while_rollouts_hang_and_green_within_ten_seconds_of_their_end(
    cluster: ControlPlane, namespace: NamespaceFactory, owner: Account
) -> None:
    inside = namespace(cluster)
    with ExitStack() as stack:
        enter = stack.enter_context
        listener = enter(WebhookListener(cluster.authority, zeroes_three))
        clears = enter(ExitStack())
        clears.enter_context(
            listener.registered(cluster, inside, ["deployments/status"], name=OLD_OPERATOR)
        )
        pinner = enter(WebhookListener(cluster.authority, pins_replicas))
        pins = enter(ExitStack())
        pins.enter_context(pinner.registered(cluster, inside, ["deployments"], name=PINS))
        watch = f"--kubeconfig={owner.kubeconfig}", "--watch=deployments.apps"
        guard = enter(Genguard("--audit-only", *watch))
        enter(registered(cluster, inside, guard))
        scene = Scene(cluster, inside, guard)
        scene.create()
        assert scene.hangs()
        await asyncio.to_thread(scene.quarrel)

        port = int(guard.ops_url.rpartition(":")[2])
        async with chromium() as browser, visiting(browser, port) as visitor:
            page = visitor.page
            await visitor.open("/")
            await expect(page.locator(".verdict.broken")).to_be_visible(timeout=PATIENCE)
            group = f"{OLD_OPERATOR} clears observedGeneration of 3 Deployments"
            await expect(page.locator("tr.group")).to_contain_text([group], timeout=PATIENCE)
            main = page.locator("main")
            for words in (PINS, re.compile(r"fight over (the )?status\S* of Deployment")):
                await expect(main).to_contain_text(words, timeout=PATIENCE)
            things = page.locator("section", has=page.locator("#not-settled")).locator("tbody tr")
            await expect(things).to_have_count(len(HUNG), timeout=PATIENCE)
            for name, text in zip(HUNG, sorted(await things.all_inner_texts()), strict=True):
                assert f"Deployment {inside}/{name}" in text
                assert "status.observedGeneration absent, want 1" in text
                assert OLD_OPERATOR in text
            await visitor.inspect("home-of-cluster-broken")

            # Nobody writes any more: what only the clock knows is resolved, the hang is not.
            pins.close()
            await asyncio.to_thread(wait_until, scene.is_quiet, LONG, what="quiet findings")
            assert scene.hangs()
            found = scene.broken()
            assert found["verdict"] == "broken"
            assert {one["name"] for one in found["notSettled"]} == set(HUNG)
            left = [one for one in scene.findings() if one["state"] == "quiet"]
            assert {one["detector"] for one in left} >= {CLEARED}
            await expect(page.locator(".verdict.broken")).to_be_visible(timeout=PATIENCE)
            quiet = page.locator(".about .state.quiet").first
            await expect(quiet).to_have_text("broken, no new sign", timeout=PATIENCE)
            await visitor.inspect("home-of-cluster-quiet")

            # The webhook is gone, and the value is put back by hand.
            clears.close()
            for one in left:
                if one["detector"] == CLEARED:
                    cluster.kubectl(*shlex.split(one["repair"])[1:])
            await expect(page.locator(".verdict.good")).to_be_visible(timeout=PATIENCE)
            assert not scene.hangs()
            await visitor.inspect("home-of-cluster-good")

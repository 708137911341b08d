"""The first hour of a platform engineer: a real control plane, a terminal and a real browser.

It ends with a table of times, which `make first-hour` writes to docs/first-hour.md.
"""

import asyncio
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Locator, Page, expect

from tests.beside import Beside
from tests.controlplane.client import Client, wait_until
from tests.controlplane.options import Options
from tests.controlplane.plane import ControlPlane
from tests.controlplane.webhook_listener import Patch, WebhookListener
from tests.dashboard.browser import SHOTS, chromium, visiting
from tests.dashboard.first_hour import Hour
from tests.e2e.culprits import OLD_OPERATOR, deployment, zeroes_observed_generation
from tests.e2e.installations import there
from tests.e2e.kubelet import PLANE, Kubelet
from tests.readme.commands import Shell
from tests.waiting import PATIENCE
from tools.bench.running import free_port

PINS = "nnn-pins-replicas"
SHOP = "shop"
DEPLOYMENTS = f"/apis/apps/v1/namespaces/{SHOP}/deployments"
TAINT = {"key": "example.org/workloads", "effect": "NoSchedule"}
"""Keeps genguard's own pods away from the nodes of kwok: the player of the kubelet runs them."""
WORKLOADS = Options(
    controller_manager=True,
    scheduler=True,
    kwok_nodes=1,
    apiserver_flags=PLANE.apiserver_flags,
    # The node of genguard's own pods has no heartbeats.
    controller_manager_flags=("--node-monitor-grace-period=1h", "--node-startup-grace-period=1h"),
    kwok_flags=(
        "--manage-all-nodes=false",
        "--manage-nodes-with-label-selector=kubernetes.io/os=linux",
    ),
)
INSTALL = "genguard install --audit-only --image genguard:dev"
TRACE = f"genguard trace deploy/web -n {SHOP} --poke"
UNINSTALL = "genguard uninstall"
SEEN, GREEN, AMBER = 15.0, 10.0, 10.0
"""Seconds that are promised."""


class Culprit:
    """Changes the updates of one object; remembers when it first and last did so."""

    def __init__(self, name: str, patch: Callable[[Mapping[str, Any]], Patch]) -> None:
        self._name, self._patch = name, patch
        self.first = self.last = 0.0

    def __call__(self, request: Mapping[str, Any]) -> Patch:
        found = self._patch(request) if request["name"] == self._name else ()
        if found and not request.get("dryRun"):
            self.last = time.monotonic()
            self.first = self.first or self.last
        return found


def pins_replicas(request: Mapping[str, Any]) -> Patch:
    if request["operation"] != "UPDATE":
        return ()
    return [{"op": "replace", "path": "/spec/replicas", "value": 3}]


class Scaler(Beside):
    """An autoscaler that wants five replicas, and asks again while there are others."""

    def __init__(self, client: Client) -> None:
        super().__init__()
        self._client = client

    def _run(self) -> None:
        while not self._over.wait(0.5):
            path = f"{DEPLOYMENTS}/pinned"
            if self._client.get(path).body["spec"]["replicas"] != 5:
                self._client.patch(path, {"spec": {"replicas": 5}})
        self._client.close()


class Desk:
    """What the engineer sits at: a terminal, a browser, and a cluster with two Deployments."""

    def __init__(self, plane: ControlPlane, shell: Shell, page: Page, base: str) -> None:
        self.plane, self.shell, self.page, self.base = plane, shell, page, base
        self.hour = Hour()

    async def home(self) -> None:
        await self.page.goto(self.base)

    async def type(self, command: str) -> str:
        """Run it in the terminal, and answer its question with y."""
        return await asyncio.to_thread(self.shell.run_and_agree, command)

    async def sees(self, what: Locator) -> float:
        """When it is on the first screen."""
        await expect(what).to_be_in_viewport(timeout=PATIENCE * 1000)
        return time.monotonic()

    async def named(self, culprit: Culprit, name: str) -> None:
        """The home page is red and names the culprit, and nobody has scrolled."""
        link = self.page.get_by_role("main").get_by_role("link", name=re.compile(name)).first
        at = await self.sees(link)
        what = f"see `{name}` on the first screen, since it first did harm"
        self.hour.took(what, at - culprit.first, SEEN)
        await expect(self.page.locator(".overall.broken")).to_be_visible(timeout=PATIENCE * 1000)
        await link.click()

    async def copied(self, at: int = 0) -> str:
        """What a button of the page copies; the first one is on the first screen."""
        copy = self.page.get_by_role("main").get_by_role("button", name=re.compile("^Cop")).nth(at)
        await copy.scroll_into_view_if_needed() if at else await self.sees(copy)
        await copy.click()
        command: str = await self.page.evaluate("navigator.clipboard.readText()")
        return command

    def observed(self) -> bool:
        """Whether the rollout of `web` is seen by kubectl as what it is: done."""
        found = self.plane.client.get(f"{DEPLOYMENTS}/web").body
        return found["status"].get("observedGeneration") == found["metadata"]["generation"]


@pytest.fixture
def plane() -> Iterator[ControlPlane]:
    with ControlPlane(WORKLOADS) as plane:
        plane.kubectl("taint", "nodes", "--all", f"{TAINT['key']}=:{TAINT['effect']}")
        plane.client.post("/api/v1/namespaces", {"metadata": {"name": SHOP}})
        account = f"/api/v1/namespaces/{SHOP}/serviceaccounts/default"
        wait_until(lambda: plane.client.get(account, check=False).status == 200, what=account)
        for name in ("web", "pinned"):
            body = deployment(name, replicas=3)
            tolerates = [{**TAINT, "operator": "Exists"}]
            body["spec"]["template"]["spec"]["tolerations"] = tolerates
            plane.client.post(DEPLOYMENTS, body)
        for name in ("web", "pinned"):
            plane.kubectl("rollout", "status", f"deploy/{name}", "-n", SHOP, "--timeout=100s")
        yield plane


async def test_a_first_hour_from_install_to_uninstall(plane: ControlPlane, tmp_path: Path) -> None:
    port, before = free_port(), there(plane)
    shell = Shell(tmp_path, plane.kubeconfig)
    with Kubelet(plane, port):
        async with chromium() as browser, visiting(browser, port) as visitor:
            context = visitor.page.context
            await context.grant_permissions(["clipboard-read", "clipboard-write"])
            await visitor.page.set_viewport_size({"width": 1400, "height": 1000})
            desk = Desk(plane, shell, visitor.page, visitor.base)
            with desk.hour.timed(f"`{INSTALL}`"):
                assert "3/3" in await desk.type(INSTALL)
            await desk.home()
            await a_value_is_cleared(desk)
            await two_fight(desk)
            with desk.hour.timed(f"`{UNINSTALL}`"):
                await desk.type(UNINSTALL)
            # The pod is replaced once, and gone in the end: its page says so, and so does Chromium.
            refused = "Failed to load resource: net::ERR_"
            visitor.complaints[:] = [one for one in visitor.complaints if refused not in one]
            await visitor.page.goto("about:blank")
    await asyncio.to_thread(wait_until, lambda: there(plane) == before, what="all of it gone")
    told = desk.hour.text()
    SHOTS.mkdir(parents=True, exist_ok=True)
    (SHOTS / "first-hour.md").write_text(told)
    if page := os.environ.get("GENGUARD_FIRST_HOUR"):
        desk.hour.write(Path(page))


async def a_value_is_cleared(desk: Desk) -> None:
    """A rollout hangs; the first two commands of the page let it complete, and home is green."""
    zeroes = Culprit("web", zeroes_observed_generation)
    plane, hour = desk.plane, desk.hour
    resources = ["deployments/status"]
    with (
        WebhookListener(plane.authority, zeroes) as listener,
        listener.registered(plane, SHOP, resources, name=OLD_OPERATOR),
    ):
        rollout = f"kubectl rollout status deploy/web -n {SHOP} --timeout"
        desk.shell.run(f"kubectl set image deploy/web c=image:2 -n {SHOP}")
        await desk.named(zeroes, OLD_OPERATOR)
        assert await asyncio.to_thread(desk.shell.run, f"{rollout}=3s || true")
        assert not desk.observed()
        with hour.timed(f"`{TRACE}`"):
            assert f"{OLD_OPERATOR}/" in await desk.type(TRACE)
        commands = await desk.copied(), await desk.copied(1)
        done = "the webhook leaves the status alone", "the value is put back"
        for command, what in zip(commands, done, strict=True):
            assert command.startswith("kubectl patch "), command
            with hour.timed(f"run the next command of the page: {what}"):
                await desk.type(command)
        await asyncio.to_thread(wait_until, desk.observed, what="the value restored")
        ended = time.monotonic()
        await desk.home()
        green = await desk.sees(desk.page.locator(".overall.good"))
        hour.took("see that nothing is broken, since the value is back", green - ended, GREEN)
        assert "successfully rolled out" in await asyncio.to_thread(
            desk.shell.run, f"{rollout}=60s"
        )


async def two_fight(desk: Desk) -> None:
    """A webhook and an autoscaler fight; the first command ends it; home is amber, then green."""
    pins = Culprit("pinned", pins_replicas)
    plane, hour = desk.plane, desk.hour
    with (
        WebhookListener(plane.authority, pins) as listener,
        listener.registered(plane, SHOP, ["deployments"], name=PINS),
        Scaler(plane.client_of("admin")),
    ):
        await desk.named(pins, PINS)
        command = await desk.copied()
        assert command.startswith("kubectl patch "), command
        await desk.home()
        with hour.timed("run the first command of its page: the webhook is not called for it"):
            await desk.type(command)
        amber = await desk.sees(desk.page.locator(".overall.ending"))
        hour.took("see that it ends (amber), since its last sign", amber - pins.last, AMBER)
        green = await desk.sees(desk.page.locator(".overall.good"))
        hour.took("see that nothing is broken, since then", green - amber)
        assert plane.client.get(f"{DEPLOYMENTS}/pinned").body["spec"]["replicas"] == 5

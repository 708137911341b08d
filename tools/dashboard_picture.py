"""Photographs the dashboard: `python -m tools.dashboard_picture` writes docs/dashboard.png.

What it shows is real: the Deployment of `make demo`, whose rollout hangs on a real control plane,
as it is seen by a genguard that changes nothing.
"""

import asyncio
from pathlib import Path

from tests.controlplane.client import wait_until
from tests.controlplane.options import FULL_CLUSTER
from tests.controlplane.plane import ControlPlane
from tests.dashboard.browser import chromium
from tests.e2e.genguard import ROOT
from tools.demo.__main__ import NAMESPACE, bad_webhook, serving, watch

PICTURE = ROOT / "docs" / "dashboard.png"
_SIZE = {"width": 1200, "height": 680}


def main() -> None:
    """Make the rollout hang, and photograph what genguard says of it."""
    with ControlPlane(FULL_CLUSTER) as plane:
        plane.client.post("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        account = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/default"
        wait_until(lambda: plane.client.get(account).body, what="the service account")
        with bad_webhook(plane), serving(plane, "--audit-only") as guard:
            watch(plane, guard)
            asyncio.run(photograph(f"{guard.ops_url}/", PICTURE))
    print(f"{PICTURE.relative_to(ROOT)}: {PICTURE.stat().st_size / 1024:.0f} KiB")


async def photograph(url: str, picture: Path) -> None:
    """The upper part of a page, as a PNG."""
    async with chromium() as browser:
        page = await browser.new_page(viewport=_SIZE, color_scheme="light", reduced_motion="reduce")
        await page.goto(url, timeout=120_000)
        await page.screenshot(path=picture, timeout=120_000)


if __name__ == "__main__":
    main()

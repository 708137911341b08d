"""A real Chromium that looks at the dashboard, and what it has to complain about."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Browser, Page, async_playwright

from tests.dashboard.binaries import binary, environment
from tests.e2e.genguard import ROOT

SHOTS = Path(os.environ.get("GENGUARD_SCREENSHOTS", ROOT / "build" / "dashboard"))
"""Where pictures of each page are left, to be looked at."""
SIZES = {"desktop": (1400, 900), "phone": (390, 844)}
SCHEMES = ("light", "dark")


@dataclass
class Visitor:
    """One tab; `complaints` are errors of its console, pages that failed and policies broken."""

    page: Page
    base: str
    complaints: list[str] = field(default_factory=list)

    async def open(self, path: str) -> int:
        answer = await self.page.goto(self.base + path)
        assert answer is not None
        return answer.status

    async def text(self, selector: str = "main") -> str:
        return await self.page.inner_text(selector)

    async def inspect(self, name: str) -> None:
        """Look at the page in every size and theme: axe finds nothing, and nothing sticks out."""
        async for where in self._sights(name):
            found = await Axe().run(self.page)
            assert not found.violations_count, f"{where}: {found.generate_report()}"

    async def photograph(self, name: str) -> None:
        """Take pictures of the page in every size and theme; nothing sticks out."""
        async for _ in self._sights(name):
            pass

    async def _sights(self, name: str) -> AsyncIterator[str]:
        for size, (width, height) in SIZES.items():
            await self.page.set_viewport_size({"width": width, "height": height})
            for scheme in SCHEMES:
                await self.page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
                where = f"{name}-{size}-{scheme}"
                SHOTS.mkdir(parents=True, exist_ok=True)
                await self.page.screenshot(path=SHOTS / f"{where}.png", full_page=True)
                wide = await self.page.evaluate("document.documentElement.scrollWidth")
                assert wide <= width, f"{where}: {wide} px wide"
                yield where


@asynccontextmanager
async def chromium() -> AsyncIterator[Browser]:
    """The browser itself; tabs of it are made by `visiting`."""
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=binary("chromium"),
            env={**os.environ, **environment()},
            args=["--no-sandbox"],  # CI runs as root, for whom Chromium has none
        )
        try:
            yield browser
        finally:
            await browser.close()


@asynccontextmanager
async def visiting(browser: Browser, port: int, **context: object) -> AsyncIterator[Visitor]:
    """A tab of its own; at the end it must have had nothing to complain about."""
    tab = await browser.new_context(reduced_motion="reduce", **context)
    visitor = Visitor(await tab.new_page(), f"http://127.0.0.1:{port}")
    complain = visitor.complaints.append
    visitor.page.on("pageerror", lambda error: complain(f"page: {error}"))
    visitor.page.on(
        "console",
        lambda one: (
            complain(f"{one.type}: {one.text}") if one.type in ("error", "warning") else None
        ),
    )
    try:
        yield visitor
        assert visitor.complaints == []
    finally:
        await tab.close()

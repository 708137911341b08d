"""A page keeps itself current, leaves people alone who use it, and works without its script."""

from playwright.async_api import expect

from tests.dashboard.browser import visiting
from tests.dashboard.stories import OLD_OPERATOR

PATIENCE = 60_000.0
"""Milliseconds."""


async def test_a_new_finding_appears_by_itself(visitor, story):
    await visitor.open("/")
    await expect(visitor.page.locator("#live")).to_contain_text("Live", timeout=PATIENCE)
    await story.cleared(4, is_lost=True)
    await expect(visitor.page.locator(".finding")).to_contain_text("shop/web", timeout=PATIENCE)
    await expect(visitor.page.locator("#live")).to_contain_text("1 warning", timeout=PATIENCE)


async def test_who_pauses_or_types_is_left_alone_until_done(visitor, story):
    await visitor.open("/")
    page, found = visitor.page, visitor.page.locator(".finding")
    await page.get_by_role("button", name="Pause updates").click()
    await expect(page.locator("#live")).to_contain_text("Paused", timeout=PATIENCE)
    await page.reload()
    await page.get_by_label("Search").fill("half a wo")
    await story.cleared(4)
    await expect(page.locator("#live")).to_contain_text("New data is available", timeout=PATIENCE)
    assert await page.get_by_label("Search").input_value() == "half a wo"
    assert await found.count() == 0
    await page.get_by_label("Search").fill("")
    await page.get_by_label("Search").blur()
    await expect(found).to_have_count(1, timeout=PATIENCE)


async def test_a_lost_connection_is_told(visitor, running):
    await visitor.open("/")
    await expect(visitor.page.locator("#live")).to_contain_text("Live", timeout=PATIENCE)
    await running.service.stop()
    live = visitor.page.locator("#live")
    await expect(live).to_contain_text("Connection lost", timeout=PATIENCE)
    await visitor.inspect("findings-connection-lost")
    assert all("Failed to load resource" in one or "ERR_" in one for one in visitor.complaints)
    visitor.complaints.clear()


async def test_without_javascript_everything_is_there(running, story, browser):
    await story.cleared(4)
    port = running.service.ops_port
    async with visiting(browser, port, java_script_enabled=False) as visitor:
        await visitor.open("/")
        assert "Reload the page" in await visitor.text("footer")
        await visitor.page.click(".finding .about a")
        assert await visitor.page.locator("svg.plot").count() == 1
        await visitor.page.click("nav >> text=Terminating")
        assert "terminating" in (await visitor.text()).lower()


async def test_by_keyboard_one_comes_to_the_content_at_once_and_to_each_control(visitor, story):
    await story.cleared(4)
    await visitor.open("/")
    keyboard = visitor.page.keyboard
    await keyboard.press("Tab")
    assert await focused(visitor) == "Skip to content"
    await keyboard.press("Enter")
    assert await visitor.page.evaluate("document.activeElement.id") == "main"
    seen = []
    for _ in range(30):
        await keyboard.press("Tab")
        seen.append(await focused(visitor))
    for control in ("Search", "Severity", "Detector", "Namespace", "State", "Show"):
        assert control in seen
    assert f"{OLD_OPERATOR} clears observedGeneration of Deployment shop/web" in seen


async def focused(visitor):
    """The name of the control that has the focus."""
    return await visitor.page.evaluate(
        "(one => (one.labels?.[0]?.firstChild ?? one).textContent.trim())(document.activeElement)"
    )


async def test_what_is_read_stays_in_place_when_something_comes_above_it(running, visitor, story):
    for number in range(8):  # of more, one finding tells
        await story.cleared(4, name=f"web-{number}")
    page = visitor.page
    await page.set_viewport_size({"width": 390, "height": 600})
    await visitor.open("/")
    row = page.locator(".finding a.headline", has_text="web-5")
    await row.evaluate("(one) => scrollTo(0, scrollY + one.getBoundingClientRect().top - 20)")
    before = (await row.bounding_box())["y"]
    await story.cleared(4, name="web-99")
    await expect(page.locator(".finding a.headline", has_text="web-99")).to_have_count(
        1, timeout=PATIENCE
    )
    assert abs((await row.bounding_box())["y"] - before) < 2

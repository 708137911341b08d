"""Tables of objects and pods: sorted by a click, as files, within a time, and whole on a phone."""

import pytest
from playwright.async_api import expect

from tests.dashboard.stories import watched

PHONE = {"width": 390, "height": 844}


@pytest.fixture
async def pods(visitor, running):
    """The page of seven terminating pods."""
    watched(running, pods=7)
    await visitor.open("/terminating")
    return visitor


async def names(visitor):
    return await visitor.page.locator("table >> nth=0 >> tbody th").all_inner_texts()


async def test_a_click_on_a_header_sorts_and_another_one_turns_it(pods):
    header = pods.page.locator("table >> nth=0 >> thead th").first
    await header.get_by_role("button").click()
    assert await names(pods) == [f"shop/web-7d9-{number}" for number in range(7)]
    assert await header.get_attribute("aria-sort") == "ascending"
    await header.get_by_role("button").click()
    assert await names(pods) == [f"shop/web-7d9-{number}" for number in reversed(range(7))]
    await pods.page.get_by_role("button", name="Grace left").click()
    assert (await names(pods))[-1] in ("shop/web-7d9-0", "shop/web-7d9-3", "shop/web-7d9-6")
    assert await header.get_attribute("aria-sort") is None
    await pods.inspect("terminating-sorted")


async def test_an_update_leaves_the_order_that_was_chosen(pods, running):
    await pods.page.get_by_role("button", name="Pod", exact=True).click()
    watched(running, pods=9)
    await pods.page.evaluate("document.activeElement.blur()")
    rows = pods.page.locator("table >> nth=0 >> tbody tr")
    await expect(rows).to_have_count(9, timeout=60_000)
    assert await names(pods) == [f"shop/web-7d9-{number}" for number in range(9)]


@pytest.mark.parametrize("path", ["/terminating", "/objects", "/webhooks"])
async def test_on_a_phone_no_column_is_cut_off(pods, story, path):
    await story.cleared(4)
    await pods.page.set_viewport_size(PHONE)
    await pods.open(path)
    wide = """[...document.querySelectorAll("main *")]
        .filter((one) => !one.closest(".unseen, thead"))
        .filter((one) => one.getBoundingClientRect().right > 391)
        .map((one) => one.outerHTML.slice(0, 120))"""
    assert await pods.page.evaluate(wide) == []


async def test_a_search_by_node_finds_its_pods(pods):
    await pods.page.click("dl >> text=node-3.example.org")
    assert "q=node-3.example.org" in pods.page.url
    assert await names(pods) == ["shop/web-7d9-3"]
    await pods.page.get_by_label("Search").fill("no-such-node")
    await pods.page.get_by_role("button", name="Show").click()
    assert "Nothing matches" in await pods.text()
    await pods.inspect("terminating-no-match")


async def test_objects_within_a_time(visitor, story):
    await story.cleared(4)
    await visitor.open("/objects")
    await visitor.page.get_by_label("Changed within").select_option("5m")
    await visitor.page.get_by_role("button", name="Show").click()
    assert "since=5m" in visitor.page.url
    assert "1 object, the worst and oldest first" in await visitor.text()
    await visitor.page.click("text=shop/web")
    assert "4 writes as a table" in await visitor.text()
    assert "kubectl describe deployments.apps/web -n shop" in await visitor.text()


async def test_on_a_phone_the_filters_are_one_click_away(visitor, story):
    await story.cleared(4)
    page = visitor.page
    await page.set_viewport_size(PHONE)
    for path in ("/", "/objects"):
        await visitor.open(path)
        namespace = page.get_by_label("Namespace")
        await expect(page.get_by_label("Search")).to_be_visible()
        await expect(namespace).to_be_hidden()
        await page.get_by_role("button", name="More filters").click()
        await namespace.fill("shop")
        await page.get_by_role("button", name="Show").click()
        await expect(namespace).to_have_value("shop")
        await expect(namespace).to_be_visible()

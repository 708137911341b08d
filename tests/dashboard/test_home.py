"""The home page in a real browser: its state, groups, keys and downloads."""

import json

import pytest
from playwright.async_api import expect

from tests.dashboard.crowd import ended
from tests.dashboard.stories import OLD_OPERATOR, UP

PATIENCE = 60_000.0
"""Milliseconds."""
THREE = ("cart", "checkout", "web")


@pytest.fixture
async def three(story):
    """Three Deployments whose observedGeneration one webhook clears."""
    for name in THREE:
        await story.cleared(4, name=name, is_lost=True)


async def settled(story) -> None:
    await story.write(name="calm", stored={}, sent={"observedGeneration": 1, **UP})


async def test_findings_of_one_culprit_are_one_group_that_says_what_it_does(visitor, three):
    await visitor.open("/")
    groups = visitor.page.locator("tr.group")
    await expect(groups).to_contain_text([f"{OLD_OPERATOR} clears observedGeneration of 3 Deplo"])
    assert await visitor.page.locator(".finding").count() == len(THREE)
    assert "3 objects are broken" in await visitor.text("h1")
    await visitor.inspect("home-three")


@pytest.mark.parametrize("size", [(1400, 1000), (390, 844)])
async def test_the_worst_finding_is_on_the_first_screen_with_what_to_copy(visitor, story, size):
    await story.fought()
    page = visitor.page
    await page.set_viewport_size({"width": size[0], "height": size[1]})
    await visitor.open("/")
    shown = " ".join((await visitor.text(".first")).split())
    assert "fight over spec.replicas of Deployment shop/web spec.replicas" in shown
    assert "⇄" in shown
    box = await page.locator(".first .copy").bounding_box()
    assert box["y"] + box["height"] < size[1]
    await visitor.open("/?severity=warning")
    assert await page.locator(".first").count() == 0, "who filters looks for something else"


@pytest.mark.parametrize("times", [0, 4])
async def test_it_is_green_where_nothing_is_broken_or_all_is_repaired(
    visitor, running, story, times
):
    await settled(story)
    await story.cleared(times)
    await story.write(name="web", stored={}, sent={"observedGeneration": 1, **UP})
    await story.caught_up()
    for resource in running.watching.states():
        running.watching.current(resource, is_current=True)
    await visitor.open("/")
    assert await visitor.text("h1") == "Nothing is broken"
    assert ("1 repaired" in await visitor.text(".counts")) is bool(times)
    await visitor.inspect("home-repaired" if times else "home-good")


async def test_what_waits_for_its_end_is_amber_on_every_page(visitor, running, story):
    await settled(story)
    for resource in running.watching.states():
        running.watching.current(resource, is_current=True)
    ended(running, "calm")
    red = visitor.page.locator(".badge.critical:not(.none), .badge.Red, .overall.broken")
    await visitor.open("/")
    assert await visitor.text("h1") == "1 finding is waiting"
    answer = await visitor.page.request.get(f"{visitor.base}/api/broken")
    assert (await answer.json())["state"] == "ending"
    row = visitor.page.locator("tr.finding")
    await expect(row.locator(".badge.ending")).to_have_text("critical", timeout=PATIENCE)
    await expect(row).to_contain_text(
        "waiting: no sign for 3", timeout=PATIENCE
    )  # minutes, and it goes on
    assert await red.count() == 0
    await visitor.inspect("home-ending")
    await row.locator("a.headline").click()
    await expect(visitor.page.locator(".where")).to_contain_text("if it stays so", timeout=PATIENCE)
    assert await red.count() == 0
    await visitor.inspect("finding-ending")
    again = await visitor.page.get_attribute("main", "data-again")
    assert again == "", "it looks as it is until it ends, and need not be loaded again"
    await visitor.page.get_by_role("link", name="deployments.apps shop/calm").click()
    beside_health_and_listed = visitor.page.locator(".badge.ending")
    await expect(beside_health_and_listed).to_have_text(["critical"] * 2, timeout=PATIENCE)
    assert await red.count() == 0
    await visitor.inspect("object-ending")


async def test_without_a_cluster_it_says_how_to_connect_one_and_not_that_all_is_well(stranger):
    await stranger.open("/")
    assert await stranger.text("h1") == "Not known whether something is broken"
    command = stranger.page.locator(".overall pre")
    assert await command.inner_text() == "genguard serve --kubeconfig ~/.kube/config"
    assert await stranger.page.get_by_role("button", name="Copy command").is_visible()
    await stranger.inspect("home-unknown")


async def test_an_object_is_broken_waiting_or_fine(visitor, story):
    await settled(story)
    story.family()
    await story.caught_up()
    await visitor.open("/objects")
    words = await visitor.page.locator("td[data-label=State] .badge.Green").all_inner_texts()
    assert words
    assert set(words) == {"fine"}
    await visitor.page.get_by_label("State").select_option("fine")
    await visitor.page.get_by_role("button", name="Show").click()
    assert "health=Green" in visitor.page.url, "the parameter keeps the name of the JSON"


async def test_each_row_opens_by_the_keyboard_alone(visitor, three):
    await visitor.open("/")
    page = visitor.page
    await page.keyboard.press("?")
    await expect(page.locator("#help")).to_be_visible()
    await visitor.inspect("home-help")
    await page.keyboard.press("Escape")
    await expect(page.locator("#help")).to_be_hidden()
    focused = "document.activeElement.textContent"
    for key, name in (("j", "web"), ("j", "checkout"), ("j", "cart"), ("k", "checkout")):
        await page.keyboard.press(key)
        assert (await page.evaluate(focused)).endswith(f"shop/{name}")
    await page.keyboard.press("/")
    await page.keyboard.type("j/k?")
    assert await page.get_by_label("Search").input_value() == "j/k?"
    await page.keyboard.press("Escape")
    await page.keyboard.press("k")
    await page.keyboard.press("Enter")
    await page.wait_for_url("**/findings/*")


async def test_a_row_keeps_the_focus_while_the_page_updates_itself(visitor, story):
    await story.cleared(4, name="cart")
    await visitor.open("/")
    page = visitor.page
    await page.keyboard.press("j")
    await story.cleared(4, name="web")
    await expect(page.locator(".finding")).to_have_count(2, timeout=PATIENCE)
    assert (await page.evaluate("document.activeElement.textContent")).endswith("shop/cart")


async def test_what_is_shown_is_downloaded_as_json(visitor, three):
    await visitor.open("/?q=shop/web")
    async with visitor.page.expect_download() as started:
        await visitor.page.click("text=JSON")
    file = await (await started.value).path()
    (found,) = json.loads(file.read_text())["findings"]
    assert (found["object"]["namespace"], found["object"]["name"]) == ("shop", "web")
    assert found["count"] == 4
    assert found["actors"][0]["name"] == f"{OLD_OPERATOR}/status.example.org"

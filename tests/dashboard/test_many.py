"""10,000 findings and 100,000 objects: few rows at a time, all of them within reach."""

import json

import pytest

from tests.dashboard.crowd import FINDINGS, OBJECTS, crowd
from tests.dashboard.stories import watched

ROWS = 100
PAGES = ("/", "/objects", "/webhooks", "/terminating")


@pytest.fixture
def crowded(running):
    crowd(running)
    return running


async def test_with_very_many_rows_a_page_shows_a_hundred_and_says_how_many_there_are(
    crowded, visitor
):
    page = visitor.page
    await visitor.open("/")
    assert await page.locator(".finding").count() == ROWS
    assert f"1 to {ROWS} of {FINDINGS:,} findings" in await visitor.text()
    async with page.expect_navigation():
        await page.click("nav.pages >> text=Next")
    assert f"{ROWS + 1} to {2 * ROWS} of" in await visitor.text()
    await page.get_by_label("Search").fill("web-777 team-27")
    async with page.expect_navigation():
        await page.get_by_role("button", name="Show").click()
    assert "team-27/web-7777" in await visitor.text()
    assert await page.locator(".finding").count() < ROWS

    await visitor.open("/objects")
    assert await page.locator("tbody tr").count() == ROWS
    assert f"1 to {ROWS} of {OBJECTS:,} objects" in await visitor.text()
    async with page.expect_navigation():
        await page.click("nav.pages >> text=Next")
    assert f"{ROWS + 1} to {2 * ROWS} of" in await visitor.text()
    await page.get_by_label("Search").fill("team-6/thing-54356")
    async with page.expect_navigation():
        await page.get_by_role("button", name="Show").click()
    assert "1 object," in await visitor.text()
    await page.click("text=thing-54356")
    assert await page.locator(".tree li").count() == 4
    await visitor.inspect("object-of-many")


@pytest.mark.parametrize("path", PAGES)
async def test_no_page_grows_with_what_there_is(crowded, path):
    answer = await crowded.ops(path)
    assert answer.status == 200
    assert len(answer.body) < 200_000


async def test_every_object_is_on_one_page_of_the_api(crowded):
    seen, token = 0, ""
    while True:
        found = (await crowded.ops(f"/api/objects?limit=1000&q=team-7/&continue={token}")).json
        assert found["before"] == seen
        seen += len(found["objects"])
        if not (token := found["continue"]):
            break
    assert seen == found["total"] == OBJECTS // 50


@pytest.mark.parametrize("findings", [0, 7, 500, FINDINGS])
async def test_each_page_fits_a_desk_and_a_phone_in_both_themes(running, visitor, findings):
    crowd(running, findings=findings, objects=findings)
    watched(running, pods=min(findings, ROWS))
    await running.caught_up()
    found = json.loads((await running.ops("/api/findings?limit=1")).body)["findings"]
    paths = (*PAGES, *(f"/findings/{one['id']}" for one in found))
    for path in paths:
        assert await visitor.open(path) == 200
        await visitor.photograph(f"{path.split('/')[1] or 'home'}-of-{findings}")

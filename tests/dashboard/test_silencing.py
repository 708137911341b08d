"""Acknowledge and silence by the buttons of a finding's page."""

import pytest
from playwright.async_api import expect

from tests.contract.service import serving
from tests.dashboard.browser import visiting
from tests.dashboard.stories import Story, suspects

FORM = "form[data-silence]"


@pytest.fixture
async def finding(visitor, story, running):
    """The page of one finding."""
    await story.cleared(4)
    (one,) = running.detecting.findings()
    await visitor.open(f"/findings/{one.id}")
    await visitor.page.locator(".silence summary").click()
    return visitor


async def test_a_finding_is_silenced_shown_as_that_and_ended(finding, running):
    page = finding.page
    await page.get_by_label("Reason").fill("GG-17")
    await page.get_by_label("Your name").fill("ana")
    await page.locator("select[name=seconds]").select_option("86400")
    await page.get_by_role("button", name="Silence").click()
    await expect(page.locator(".held")).to_contain_text("silenced by ana until", timeout=60_000)
    assert "GG-17" in await finding.text(".held")
    assert "(in 1 d)" in await finding.text(".held") or "(in 24 h)" in await finding.text(".held")
    await finding.inspect("finding-silenced")
    await finding.open("/server")
    assert "silenced by ana" in await finding.text()
    await page.click("text=GG-17")
    await page.locator(".silence summary").click()
    await page.get_by_role("button", name="End now").click()
    await expect(page.locator(".held")).to_have_count(0, timeout=60_000)
    assert running.silences.current(0.0) == ()


async def test_by_the_enter_key_it_is_acknowledged(finding):
    await finding.page.get_by_label("Reason").fill("GG-17")
    await finding.page.keyboard.press("Enter")
    await expect(finding.page.locator(".held")).to_contain_text("acknowledged", timeout=60_000)


async def test_without_a_reason_nothing_is_sent(finding, running):
    await finding.page.get_by_role("button", name="Acknowledge").click()
    assert len(running.silences) == 0


async def test_what_is_refused_is_shown(finding):
    await finding.page.locator(FORM).evaluate(
        "(form) => { form.dataset.silence = '/api/findings/none/silence'; }"
    )
    await finding.page.get_by_label("Reason").fill("GG-17")
    await finding.page.get_by_role("button", name="Silence").click()
    answer = finding.page.locator(".silence-answer")
    await expect(answer).to_contain_text("no finding has this id", timeout=60_000)
    assert all("404" in one for one in finding.complaints)
    finding.complaints.clear()


async def test_without_javascript_there_are_no_buttons_but_words(running, story, browser):
    await story.cleared(4)
    (one,) = running.detecting.findings()
    port = running.service.ops_port
    async with visiting(browser, port, java_script_enabled=False) as visitor:
        await visitor.open(f"/findings/{one.id}")
        await visitor.page.locator(".silence summary").click()
        assert not await visitor.page.locator(FORM).is_visible()
        assert "This needs JavaScript" in await visitor.text()


async def test_a_page_of_another_site_silences_nothing(running, story, browser, tmp_path):
    """The other site is a second server: of another port, so of another origin."""
    await story.cleared(4)
    (one,) = running.detecting.findings()
    target = f"http://127.0.0.1:{running.service.ops_port}/api/findings/{one.id}/silence"
    body = '{"action": "silence", "reason": "x", "seconds": 3600}'
    attack = """([url, body, type]) => fetch(url, {
        method: "POST", mode: type ? "cors" : "no-cors", body,
        headers: type ? {"Content-Type": type} : {},
    }).then(() => "sent", () => "stopped")"""
    async with serving(tmp_path / "other", suspects=suspects()) as other:
        tab = await browser.new_context(bypass_csp=True)  # the attacker's page has no policy
        page = await tab.new_page()
        await page.goto(f"http://127.0.0.1:{other.service.ops_port}/")
        for kind in ("application/json", "text/plain", ""):
            await page.evaluate(attack, [target, body, kind])
        form = """([url, body]) => {
            const form = document.createElement("form");
            form.method = "POST"; form.action = url; form.enctype = "text/plain";
            const field = document.createElement("input");
            field.name = body; form.append(field); document.body.append(form); form.submit();
        }"""
        await page.evaluate(form, [target, body])
        await page.wait_for_load_state()
        await tab.close()
    assert len(running.silences) == 0


async def test_a_read_only_dashboard_offers_nothing(tmp_path, browser):
    async with serving(tmp_path, suspects=suspects(), ops_read_only=True) as run:
        await Story(run).cleared(4)
        (one,) = run.detecting.findings()
        async with visiting(browser, run.service.ops_port) as visitor:
            await visitor.open(f"/findings/{one.id}")
            assert await visitor.page.locator(FORM).count() == 0
            await visitor.page.locator(".silence summary").click()
            assert "--ops-read-only" in await visitor.text()
            await visitor.inspect("finding-read-only")

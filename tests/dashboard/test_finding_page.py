"""The page of one finding: what happened, and steps that fit mode and actors, ready to copy."""

import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from genguard.admission.matching import read_configurations
from genguard.detection.mutators import Mutators
from genguard.review_setup import GenerationPatch, ReviewOptions
from tests.contract.service import serving
from tests.dashboard.browser import Visitor, visiting
from tests.dashboard.stories import Story, configuration, mutators

ENFORCE = "genguard install --ha --image registry.example.org/genguard:1"


def two_mutators() -> Mutators:
    where = ("deployments", "deployments/status")
    return Mutators(
        read_configurations(
            [
                configuration("0--genguard-intent", "intent.genguard.io", "/intent", *where),
                configuration("mmm-one", "one.example.org", "/one", *where),
                configuration("mmm-two", "two.example.org", "/two", *where),
                configuration("zzzzzz-genguard-mutate", "mutate.genguard.io", "/mutate", *where),
            ]
        )
    )


@pytest.fixture
async def look(tmp_path: Path, browser: Any) -> AsyncIterator[Any]:
    """Start a server in a mode, and return its story and a visitor."""
    open_now: list[Any] = []

    async def start(mode: str, known: Mutators | None = None) -> tuple[Story, Visitor]:
        options = ReviewOptions(
            audit_only=mode == "audit-only", generation_patch=GenerationPatch.NEVER
        )
        server = serving(tmp_path, options=options, mutators=known or mutators(), enforce=ENFORCE)
        run = await server.__aenter__()
        open_now.append(server)
        visit = visiting(browser, run.service.ops_port)
        visitor = await visit.__aenter__()
        open_now.append(visit)
        return Story(run), visitor

    yield start
    for one in reversed(open_now):
        await one.__aexit__(None, None, None)


async def open_only_finding(visitor: Visitor, detector: str) -> str:
    await visitor.open("/")
    links = await visitor.page.eval_on_selector_all(
        "a[href^='/findings/']",
        "all => all.map(one => [one.textContent, one.getAttribute('href')])",
    )
    found = {href.partition("#")[0] for text, href in links}
    for href in sorted(found):
        await visitor.open(href)
        if await visitor.text(".where .detector") == detector:
            return await visitor.text()
    raise AssertionError(f"no finding of {detector} among {links}")


async def cleared(story: Story, *, is_restored: bool) -> None:
    for turn in range(6):
        conditions = [
            {"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable"},
            {
                "type": "Available",
                "status": "False",
                "reason": "pw: hunter2",
                "message": "my secret",
            },
        ]
        stored = {"observedGeneration": 4, "replicas": turn, "conditions": conditions}
        sent = {
            "observedGeneration": 5,
            "replicas": turn + 1,
            "conditions": [conditions[0], {**conditions[1], "status": "True", "message": "other"}],
        }
        came = {key: value for key, value in sent.items() if key != "observedGeneration"}
        await story.write(
            generation=5, stored=stored, sent=sent, came=came, out=sent if is_restored else came
        )
    await story.caught_up()


@pytest.mark.parametrize("mode", ["enforcing", "audit-only"])
async def test_it_shows_the_values_and_the_steps_of_its_mode(look: Any, mode: str) -> None:
    story, visitor = await look(mode)
    await cleared(story, is_restored=mode == "enforcing")
    text = await open_only_finding(visitor, "observed-generation-cleared")
    rows = await visitor.page.locator(".diff tbody tr").all_inner_texts()
    shown = {row.split()[0]: row.split("\t")[1:] for row in rows}
    end = "5" if mode == "enforcing" else "absent"
    assert shown["status.observedGeneration"] == ["4", "5", "absent", end]
    assert shown["status.conditions[Available].status"] == ['"False"', *['"True"'] * 3]
    assert shown["status.conditions[Available].message"] == ["value A", *["value B"] * 3]
    assert "hunter2" not in text
    assert "my secret" not in text
    assert '{"op":"remove","path":"/status/observedGeneration"}' in text
    assert not re.search(r"\b(KIND|NAMESPACE|RESOURCE|NAME|WEBHOOK_CONFIGURATION)\b", text)
    steps = await visitor.page.locator(".fix li").all_inner_texts()
    if mode == "enforcing":
        assert steps[0].startswith("Nothing has to be stopped at once")
        assert "audit-only" not in text
    else:
        assert steps[-1].startswith("Or let genguard restore the value")
        assert ENFORCE in steps[-1]
        assert "this can wait" not in text
    patch = steps[mode == "enforcing"]
    assert "kubectl patch mutatingwebhookconfiguration mmm-old-operator" in patch
    assert await visitor.page.locator(".fix .copy:visible").count() >= 1
    assert ("repaired at each write" in text) is (mode == "enforcing")
    assert await visitor.page.locator("h1 .badge.repaired").count() == (mode == "enforcing")
    damage = await visitor.page.locator(".diff td.damage").evaluate_all(
        "all => all.map(one => one.dataset.name)"
    )
    assert damage == ["Left by webhooks"] + ["Stored"] * (mode == "audit-only")
    assert "At 3 a.m." not in text, "the steps say all of it"
    await visitor.inspect(f"finding-cleared-{mode}")


@pytest.mark.parametrize("size", [(1400, 1000), (390, 844)])
async def test_what_whose_and_how_it_ends_is_seen_without_scrolling(look: Any, size: Any) -> None:
    story, visitor = await look("audit-only")
    await story.fought()
    await open_only_finding(visitor, "spec-fight")
    page = visitor.page
    await page.set_viewport_size({"width": size[0], "height": size[1]})
    assert sorted((await visitor.text(".values")).split()) == ["3", "5", "⇄"]
    sides = await page.locator(".sides li").evaluate_all(
        "all => all.map(one => one.getBoundingClientRect().top)"
    )
    assert len(sides) == 2
    assert sides[0] == sides[1], "beside each other"
    copy = page.locator(".copy:visible").first
    assert await copy.inner_text() == "Copy YAML"
    box = await copy.bounding_box()
    assert box is not None
    assert box["y"] + box["height"] < size[1]
    await visitor.photograph("finding-fight")


async def test_a_stanza_is_copied_as_the_lines_that_it_has(look: Any) -> None:
    story, visitor = await look("audit-only")
    await story.fought()
    await open_only_finding(visitor, "spec-fight")
    await visitor.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    await visitor.page.locator(".copy:visible").first.click()
    await visitor.page.wait_for_selector("text=Copied")
    copied = yaml.safe_load(await visitor.page.evaluate("navigator.clipboard.readText()"))
    assert copied["spec"]["ignoreDifferences"][0]["jsonPointers"] == ["/spec/replicas"]


async def test_of_several_webhooks_the_first_step_proves_which_it_is(look: Any) -> None:
    story, visitor = await look("enforcing", two_mutators())
    await cleared(story, is_restored=True)
    text = await open_only_finding(visitor, "observed-generation-cleared")
    assert "genguard trace deployments.apps/web -n shop" in text
    assert "kubectl patch" not in text
    await visitor.inspect("finding-possible")

"""Each page and state in a real browser: it works, axe finds nothing, and its console is silent."""

from tests.dashboard.stories import UP


async def test_before_the_first_write_it_says_how_to_find_out_why(visitor):
    assert await visitor.open("/") == 200
    assert "genguard doctor" in await visitor.text()
    await visitor.inspect("findings-nothing-seen")


async def test_a_finding_says_what_where_who_since_when_and_what_to_do(visitor, story):
    await story.cleared(4)
    await visitor.open("/")
    await visitor.inspect("findings")
    text = await visitor.text(".finding")
    for told in ("observed-generation-cleared", "shop/web", "mmm-old-operator/status.example.org"):
        assert told in text
    await visitor.page.click("text=All steps")
    assert "#what-to-do" in visitor.page.url
    await visitor.inspect("finding")


async def test_objects_are_listed(visitor, story):
    await visitor.open("/objects")
    await visitor.inspect("objects-nothing-seen")
    await story.cleared(2)
    await visitor.open("/objects")
    assert "Deployment shop/web" in await visitor.text()
    await visitor.inspect("objects")


async def test_an_objects_timeline_shows_each_write_and_marks_what_was_mended(visitor, story):
    for generation in range(2, 4):
        await story.spec(generation=generation, replicas=generation)
        await story.write(
            generation=generation,
            stored={"observedGeneration": generation - 1},
            sent={"observedGeneration": generation, **UP},
        )
    await story.cleared(3, generation=3)
    await story.family()
    await visitor.open("/objects")
    await visitor.page.click("text=shop/web")
    await visitor.inspect("object")
    assert "mended status.observedGeneration" in await visitor.text()
    assert await visitor.page.locator("svg.plot .mended").count() == 3

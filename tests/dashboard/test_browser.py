"""Each page and state in a real browser: it works, axe finds nothing, and its console is silent."""

from tests.dashboard.stories import UP, watched


async def test_before_the_first_write_it_says_how_to_find_out_why(visitor):
    assert await visitor.open("/") == 200
    assert "genguard doctor" in await visitor.text()
    assert "kind-shop" in await visitor.text("header")
    assert "kind-shop" in await visitor.page.title()
    await visitor.inspect("findings-nothing-seen")


async def test_a_finding_says_what_where_who_since_when_and_what_to_do(visitor, story):
    await story.cleared(4)
    await visitor.open("/")
    await visitor.inspect("findings")
    text = await visitor.text(".finding")
    for told in ("observed-generation-cleared", "shop/web", "mmm-old-operator/status.example.org"):
        assert told in text
    await visitor.page.click(".finding .headline")
    assert "/findings/" in visitor.page.url
    await visitor.inspect("finding")


async def test_an_objects_timeline_shows_each_write_and_marks_what_was_mended(visitor, story):
    for generation in range(2, 4):
        await story.spec(generation=generation, replicas=generation)
        await story.write(
            generation=generation,
            stored={"observedGeneration": generation - 1},
            sent={"observedGeneration": generation, **UP},
        )
    await story.cleared(3, generation=3)
    story.family()
    await visitor.open("/objects")
    await visitor.page.click("text=shop/web")
    await visitor.inspect("object")
    assert "restored status.observedGeneration" in await visitor.text()
    assert await visitor.page.locator("svg.plot .mended").count() == 3


async def test_webhooks_stand_in_the_order_of_calls_and_suspects_are_marked(visitor, story):
    await visitor.open("/webhooks")
    assert await visitor.page.locator(".chain .suspect").count() == 0, "no finding names any"
    await story.cleared(4)
    await visitor.open("/webhooks?resource=deployments.apps&subresource=status")
    await visitor.inspect("webhooks")
    names = await visitor.page.locator(".chain > li:not(.aside) h2").all_inner_texts()
    words = [name.split()[1] for name in names]
    own = "0--genguard-intent", "zzzzzz-genguard-mutate"
    assert words == [own[0], "mmm-old-operator", own[1], "zzzzzzz-late"]
    suspect = await visitor.text(".chain .suspect")
    for told in ("mmm-old-operator", "4\u00d7", "certain", "the write fails (Fail)", "10 s"):
        assert told in suspect
    assert "4 for certain" in suspect
    await visitor.page.get_by_label("Operation").select_option("DELETE")
    await visitor.page.get_by_role("button", name="Show").click()
    assert "No webhook is called for this write" in await visitor.text()
    await visitor.inspect("webhooks-none-called")


async def test_without_a_cluster_pages_say_what_they_lack(stranger):
    await stranger.open("/webhooks")
    assert "--kubeconfig" in await stranger.text()
    await stranger.inspect("webhooks-no-cluster")
    assert (await stranger.text("nav")).split() == ["Home", "Webhooks"], "nothing feeds the others"
    await stranger.open("/terminating")
    assert "--watch" in await stranger.text()
    await stranger.inspect("terminating-not-watched")


async def test_terminating_pods_are_counted_beside_what_status_says(visitor, running):
    watched(running, pods=0)
    await visitor.open("/terminating")
    assert "No pod is terminating" in await visitor.text()
    await visitor.inspect("terminating-none")
    watched(running, pods=3)
    running.watching.current("pods", is_current=False)
    await visitor.open("/terminating")
    assert "3 of ReplicaSet" in await visitor.text()
    assert "2 overdue" in await visitor.text()
    rows = await visitor.page.locator("table >> nth=0 >> tbody tr").all_inner_texts()
    longest, second, last = rows
    assert "web-7d9-2" in longest
    assert "overdue by 19 min" in longest or "overdue by 20 min" in longest
    assert "node-2.example.org" in longest
    assert "example.org/cleanup" in second
    assert "of 30 s" in last
    assert "differs" in await visitor.text("table >> nth=1")
    await visitor.inspect("terminating")


async def test_a_runbook_is_a_page(visitor):
    await visitor.open("/runbooks/GenguardUndecodable")
    await visitor.inspect("runbook")


async def test_what_is_not_there_is_said(visitor):
    for path, status, told, name in (
        ("/nowhere", 404, "page does not exist", "nowhere"),
        ("/findings/abc", 404, "No finding has this id", "no-such-finding"),
        ("/object?resource=pods&name=gone", 404, "This object is not known", "no-such-object"),
        ("/?severity=bad", 400, "severity must be one of", "bad-query"),
    ):
        assert await visitor.open(path) == status
        assert told in await visitor.text()
        await visitor.inspect(name)
    assert all("Failed to load resource" in one for one in visitor.complaints)
    visitor.complaints.clear()


async def test_what_ends_a_finding_is_copied_by_one_click(visitor, story):
    await story.cleared(4)
    await visitor.open("/")
    await visitor.page.click(".finding .headline")
    await visitor.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    await visitor.page.locator(".fix .copy").first.click()
    await visitor.page.wait_for_selector("text=Copied")
    copied = await visitor.page.evaluate("navigator.clipboard.readText()")
    assert copied.startswith("kubectl patch mutatingwebhookconfiguration mmm-old-operator ")
    await visitor.inspect("finding-fix")
    asked = "fetch('/api/findings').then((one) => one.json())"
    (found,) = (await visitor.page.evaluate(asked))["findings"]
    assert copied in [step.get("command") for step in found["fix"]]


async def test_where_a_browser_gives_no_clipboard_the_text_is_selected(visitor, story):
    await story.cleared(4)
    await visitor.open("/")
    await visitor.page.click(".finding .headline")
    refuse = "() => { navigator.clipboard.writeText = () => Promise.reject(new Error()); }"
    await visitor.page.evaluate(refuse)
    await visitor.page.locator(".fix .copy").first.click()
    await visitor.page.wait_for_selector("text=Selected")
    selected = await visitor.page.evaluate("document.getSelection().toString()")
    assert selected.startswith("kubectl patch mutatingwebhookconfiguration mmm-old-operator ")

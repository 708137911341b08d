"""The site has every document, fetches nothing from elsewhere, and none of its links is broken."""

import functools
import re
import shutil
import threading
from collections.abc import Iterator
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from tests.dashboard.browser import chromium
from tools.site.__main__ import ROOT, BuildError, build

RUNBOOKS = ROOT / "manifests" / "monitoring" / "runbooks"
DOCUMENTS = {
    **{f"{page.stem}/index.html": page for page in (ROOT / "docs").glob("*.md")},
    **{f"runbooks/{page.stem}/index.html": page for page in RUNBOOKS.glob("*.md")},
    **{
        f"{page.parent.relative_to(ROOT)}/index.html": page
        for folder in ("manifests", "examples", "charts")
        for page in (ROOT / folder).rglob("README.md")
    },
}
"""Where the site should have each, by its file."""


class Page(HTMLParser):
    """What a page shows, fetches, links to and can be linked to.

    fetched  what a browser loads with the page
    linked   where its links lead
    names    the anchors
    loose    Markdown that was shown as it is: a list without an empty line before it
    """

    def __init__(self, text: str) -> None:
        super().__init__()
        self.fetched: list[str] = []
        self.linked: list[str] = []
        self.names: set[str] = set()
        self.feed(text)
        article = re.search(r"<article.*?</article>", text, re.DOTALL)
        shown = re.sub(r"<(pre|code).*?</\1>", "", article[0] if article else "", flags=re.DOTALL)
        self.loose = re.findall(r"<p>[^<]*\n(?:- |\d+\. |\|).*|\]\(.*|\*\*.*|`.*", shown)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        self.names |= {found[name] for name in ("id", "name") if name in found}
        if "src" in found:
            self.fetched.append(found["src"])
        if tag == "link" and found.get("rel") not in ("canonical", "next", "prev"):
            self.fetched.append(found["href"])
        if tag == "a" and "href" in found:
            self.linked.append(found["href"])


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    build(folder)
    return folder


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Page]:
    return {path: Page(path.read_text()) for path in site.rglob("*.html")}


def test_every_document_is_on_the_site(site: Path) -> None:
    """mkdocs.yml has its navigation: a page that is missing there is missing here."""
    assert [str(page) for shown, page in DOCUMENTS.items() if not (site / shown).exists()] == []


def test_no_link_is_broken(site: Path, pages: dict[Path, Page]) -> None:
    broken = []
    for path, page in pages.items():
        if path.name == "404.html":  # it is shown at any address
            continue
        for link in (*page.linked, *page.fetched):
            parts = urlsplit(link)
            if parts.scheme:
                assert parts.scheme in ("http", "https"), link
                assert parts.netloc, link
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            is_there = target.is_relative_to(site) and target.exists()
            if parts.fragment and target in pages:
                is_there = unquote(parts.fragment) in pages[target].names
            if not is_there:
                broken.append(f"{path.relative_to(site)}: {link}")
    assert broken == []


def test_nothing_is_fetched_from_elsewhere(site: Path, pages: dict[Path, Page]) -> None:
    for page in pages.values():
        assert [one for one in page.fetched if urlsplit(one).netloc] == []
    for style in site.rglob("*.css"):
        assert re.findall(r"(?:url\(|@import )['\"]?https?:[^)]*", style.read_text()) == []


def test_markdown_is_understood_as_github_does(pages: dict[Path, Page]) -> None:
    assert {path.parent.name: page.loose for path, page in pages.items() if page.loose} == {}


@pytest.mark.parametrize("link", ["none.md", "install.md#no-such-heading"])
def test_a_broken_link_fails_the_build(tmp_path: Path, link: str) -> None:
    copy = tmp_path / "copy"
    copy.mkdir()
    for path in ROOT.iterdir():
        (copy / path.name).symlink_to(path)
    (copy / "docs").unlink()
    shutil.copytree(ROOT / "docs", copy / "docs")
    page = copy / "docs" / "status.md"
    page.write_text(f"{page.read_text()}\n[elsewhere]({link})\n")
    with pytest.raises(BuildError, match=r"Aborted with 1 warnings") as told:
        build(tmp_path / "site", copy)
    assert f"'{link}'" in str(told.value)


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Say nothing of each request."""


class Server(ThreadingHTTPServer):
    daemon_threads = True  # Chromium holds connections that it does not use


@pytest.fixture
def served(site: Path) -> Iterator[str]:
    with Server(("127.0.0.1", 0), functools.partial(Quiet, directory=str(site))) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


async def test_a_reader_finds_a_page_by_search_without_internet(served: str) -> None:
    asked: list[str] = []
    async with chromium() as browser:
        tab = await browser.new_page()
        tab.set_default_timeout(120_000)
        tab.on("request", lambda request: asked.append(request.url))
        await tab.goto(served)
        await tab.wait_for_load_state("networkidle")
        await tab.click("input[name=query]")
        await tab.locator("input[name=query]").press_sequentially("terminatingReplicas")
        await tab.wait_for_selector(".md-search-result__link")
        found = await tab.get_attribute(".md-search-result__link", "href")
    assert found is not None
    assert [url for url in asked if not url.startswith((served, "data:", "blob:"))] == []

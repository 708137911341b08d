"""Every link between the documents leads to a file, and to a heading of it."""

import re
from pathlib import Path

from tests.unit.manifest_files import REPOSITORY

DOCUMENTS = [
    *REPOSITORY.glob("*.md"),
    *(
        page
        for folder in ("docs", "manifests", "tests", "tools")
        for page in (REPOSITORY / folder).rglob("*.md")
    ),
]
_LINK = re.compile(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]+))?\)")
_CODE = re.compile(r"^```.*?^```|`[^`\n]*`", re.DOTALL | re.MULTILINE)


def anchors(text: str) -> set[str]:
    """The anchors of a page's headings, as GitHub forms them."""
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {
        re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-") for heading in headings
    }


def broken(page: Path) -> list[str]:
    """The links of a page that lead nowhere."""
    found = []
    for path, anchor in _LINK.findall(_CODE.sub("", page.read_text())):
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (
            anchor and target.suffix == ".md" and anchor not in anchors(target.read_text())
        ):
            found.append(f"{path}#{anchor}" if anchor else path)
    return found


def test_every_link_of_a_page_leads_somewhere() -> None:
    found = {str(page.relative_to(REPOSITORY)): broken(page) for page in DOCUMENTS}
    assert {page: links for page, links in found.items() if links} == {}


def test_a_link_without_a_heading_is_broken(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Heading one\n[right](#heading-one) [wrong](#two) [gone](none.md)\n")
    assert broken(page) == ["#two", "none.md"]

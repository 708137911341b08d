"""Runbooks as pages: what their Markdown says, and nothing of how it is written."""

import re

from tests.unit.dashboard.pages_text import text, words
from tests.unit.manifest_files import MANIFESTS
from webhook.dashboard.rendering import render
from webhook.dashboard.runbook import read, source

PAGES = sorted(path.stem for path in (MANIFESTS / "monitoring" / "runbooks").glob("*.md"))


def test_every_word_of_a_page_is_shown_and_no_mark(subtests):
    for name in PAGES:
        with subtests.test(name):
            page = read(source(name))
            html = "\n".join([page.intro, *(one.html for one in page.sections)])
            prose = words(re.sub(r"<code>.*?</code>", "", html, flags=re.DOTALL))
            assert not {"`", "**", "](", "|", "##"} & set(prose.split())
            assert "`" not in prose
            for word in ("genguard", "kubectl"):
                assert (word in source(name)) == (word in text(page)) or word in name.lower()
            titles = [section.title for section in page.sections]
            assert titles[-2:] == ["At 3 a.m.", "How it resolves"]


def test_what_pages_are_written_in_is_shown():
    page = read(
        "# name\n\nOne `code` and\n**strong** [label](other.md).\n\n## A\n\n1. first\n   goes on\n"
        "2. second\n\n- dot\n\n```sh\nls \\\n  -l <b>\n```\n\n"
        "| head | `a\\|b` |\n|---|---|\n| | right `\\|` |\n"
    )
    assert (page.name, page.intro) == (
        "name",
        "<p>One <code>code</code> and\n<strong>strong</strong> label.</p>\n",
    )
    (section,) = page.sections
    assert "<ol>\n<li>first\ngoes on</li>\n<li>second</li>\n</ol>\n<ul>\n<li>dot" in section.html
    assert '<pre tabindex="0"><code>ls \\\n  -l &lt;b&gt;</code></pre>' in section.html
    assert "<code>a|b</code></th>" in section.html
    assert "right <code>|</code></td>" in section.html


def test_foreign_html_is_text_and_no_address_of_a_link_is_kept():
    common = {"now": 1.0, "path": "/", "about": {"version": "1", "instance": "here"}}
    html = '<script>alert(1)</script>\n\n<img src=x onerror="alert(1)"> [a](javascript:alert(1))'
    page = read(f"# name\n\n{html}\n")
    shown = render("runbook.html", {"model": page, **common}).decode()
    assert "&lt;script&gt;" in shown
    assert "<img src=x" not in shown
    assert "<script>alert" not in shown
    assert 'href="javascript' not in shown

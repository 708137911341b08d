"""Runbooks as pages: what their Markdown says, and nothing of how it is written."""

import pytest

from genguard.detection.detectors import ALL
from tests.unit.manifest_files import MANIFESTS
from webhook.dashboard.rendering import render
from webhook.dashboard.runbook import Block, Span, read, runbook

PAGES = sorted(path.stem for path in (MANIFESTS / "monitoring" / "runbooks").glob("*.md"))


def text(spans):
    return "".join(span.text for span in spans)


def test_every_word_of_a_page_is_shown_and_no_mark(subtests):
    for name in PAGES:
        with subtests.test(name):
            every_word_is_shown_and_no_mark(name)


def every_word_is_shown_and_no_mark(name):
    page = runbook(name)
    source = (MANIFESTS / "monitoring" / "runbooks" / f"{name}.md").read_text()
    blocks = [*page.intro, *(block for section in page.sections for block in section.blocks)]
    shown = " ".join(text(item) for block in blocks for item in block.items)
    prose = " ".join(
        span.text
        for block in blocks
        if block.kind != "pre"
        for item in block.items
        for span in item
        if span.kind != "code"
    )
    assert not {"`", "**", "](", "|", "##"} & set(prose.split())
    assert "`" not in prose
    for word in ("genguard", "kubectl"):
        assert (word in source) == (word in shown) or word in name.lower()
    assert [section.title for section in page.sections][-2:] == ["At 3 a.m.", "How it resolves"]


def test_every_detector_says_what_to_do_first():
    first = {detector.name: text(runbook(detector.name).first_step) for detector in ALL}
    assert {name: step for name, step in first.items() if len(step) <= 15} == {}


def test_what_pages_are_written_in_is_read():
    page = read(
        "name",
        "# name\n\nOne `code` and\n**strong** [label](other.md).\n\n## A\n\n1. first\n   goes on\n"
        "2. second\n\n- dot\n\n```sh\nls \\\n  -l\n```\n\n"
        "| head | `a\\|b` |\n|---|---|\n| | right `\\|` |\n",
    )
    assert page.intro == (
        Block(
            "p",
            (
                (
                    Span("text", "One "),
                    Span("code", "code"),
                    Span("text", " and "),
                    Span("strong", "strong"),
                    Span("text", " "),
                    Span("text", "label"),
                    Span("text", "."),
                ),
            ),
        ),
    )
    (section,) = page.sections
    ordered, dotted, fence, table = section.blocks
    assert (ordered.kind, [text(item) for item in ordered.items]) == (
        "ol",
        ["first goes on", "second"],
    )
    assert (dotted.kind, text(dotted.items[0])) == ("ul", "dot")
    assert (fence.kind, text(fence.items[0])) == ("pre", "ls \\\n  -l")
    assert [[text(cell) for cell in row] for row in table.rows] == [
        ["head", "a|b"],
        ["", "right |"],
    ]


def test_foreign_html_is_text_and_no_address_of_a_link_is_kept():
    common = {"now": 1.0, "path": "/", "about": {"version": "1", "instance": "here"}}
    html = '<script>alert(1)</script>\n\n<img src=x onerror="alert(1)"> [a](javascript:alert(1))'
    page = read("name", f"# name\n\n{html}\n")
    shown = render("runbook.html", {"model": page, **common}).decode()
    assert "&lt;script&gt;" in shown
    assert "<img src=x" not in shown
    assert "<script>alert" not in shown
    assert 'href="javascript' not in shown


def test_what_is_no_page_is_not_found():
    with pytest.raises(FileNotFoundError):
        runbook("none")

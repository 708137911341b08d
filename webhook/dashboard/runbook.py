"""Read the runbook of a detector or alert from manifests/monitoring/runbooks, and show it.

It reads the Markdown that those pages use: paragraphs, lists, tables and code blocks; code, strong
text and links.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib import resources
from typing import Final, NamedTuple

from webhook.dashboard.page import MissingError, PageContext, PageData

_SPAN: Final = re.compile(r"`([^`]+)`|\*\*([^*]+)\*\*|\[([^\]]+)\]\(([^)]+)\)")
_CELL: Final = re.compile(r"\| ((?:`[^`]*`|[^|`])*) (?=\|)")
_RULE: Final = re.compile(r"[-| :]+")
_WHAT_TO_DO: Final = "At 3 a.m."
_ITEM: Final = re.compile(r"(?:[0-9]+\.|-) ")


class Span(NamedTuple):
    """A piece of text; `kind` is text, code or strong."""

    kind: str
    text: str


class Block(NamedTuple):
    """A block; `kind` is p, ol, ul, pre or table.

    items  the items of a list, the cells of a table row by row, or one item with all text
    width  the number of cells of a row
    """

    kind: str
    items: tuple[tuple[Span, ...], ...]
    width: int = 1

    @property
    def rows(self) -> tuple[tuple[tuple[Span, ...], ...], ...]:
        """The rows of a table; the first is its head."""
        starts = range(0, len(self.items), self.width)
        return tuple(self.items[start : start + self.width] for start in starts)


class Section(NamedTuple):
    """A heading and the blocks below it."""

    title: str
    blocks: tuple[Block, ...]


class Runbook(NamedTuple):
    """One runbook; `intro` comes before the first heading."""

    name: str
    intro: tuple[Block, ...]
    sections: tuple[Section, ...]

    @property
    def first_step(self) -> tuple[Span, ...]:
        """The first step to take; empty if the runbook has none."""
        for section in self.sections:
            if section.title == _WHAT_TO_DO:
                return section.blocks[0].items[0]
        return ()


@cache
def runbook(name: str) -> Runbook:
    """Read the runbook of a detector or alert. Raises FileNotFoundError."""
    pages = resources.files("manifests").joinpath("monitoring", "runbooks")
    return read(name, pages.joinpath(f"{name}.md").read_text("utf-8"))


def read(name: str, text: str) -> Runbook:
    """Parse the text of a runbook."""
    first, *parts = re.split(r"^## ", text, flags=re.MULTILINE)
    intro = first.partition("\n")[2]
    sections = [part.partition("\n") for part in parts]
    return Runbook(
        name,
        tuple(_blocks(intro)),
        tuple(Section(title.strip(), tuple(_blocks(body))) for title, _, body in sections),
    )


def _blocks(text: str) -> Iterator[Block]:
    for index, part in enumerate(
        re.split(r"^```[a-z]*\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)
    ):
        if index % 2:
            yield Block("pre", ((Span("text", part.rstrip("\n")),),))
        else:
            for paragraph in filter(None, map(str.strip, re.split(r"\n\s*\n", part))):
                yield _block(paragraph.splitlines())


def _block(lines: Sequence[str]) -> Block:
    if lines[0].startswith("|"):
        cells = [_CELL.findall(one) for one in lines if not _RULE.fullmatch(one)]
        return Block("table", tuple(_spans(one) for row in cells for one in row), len(cells[0]))
    if not _ITEM.match(lines[0]):
        return Block("p", (_spans(" ".join(lines)),))
    items: list[str] = []
    for line in lines:
        if _ITEM.match(line):
            items.append(_ITEM.sub("", line, count=1))
        else:
            items[-1] += f" {line.strip()}"
    kind = "ol" if lines[0][0].isdecimal() else "ul"
    return Block(kind, tuple(map(_spans, items)))


def _spans(text: str) -> tuple[Span, ...]:
    found: list[Span] = []
    end = 0
    for match in _SPAN.finditer(text):
        code, strong, label, _ = match.groups()
        found.append(Span("text", text[end : match.start()]))
        kind = "code" if code else "strong" if strong else "text"
        found.append(Span(kind, code or strong or label))
        end = match.end()
    return tuple(one for one in (*found, Span("text", text[end:])) if one.text)


async def load(_: PageContext, query: Mapping[str, str], __: float) -> PageData:
    """Return the page of a runbook, for people without internet access; raises MissingError."""
    name = query["name"]
    if not name.replace("-", "").isalnum():
        raise MissingError("This runbook does not exist.")
    try:
        return PageData(runbook(name), {})
    except FileNotFoundError as error:
        raise MissingError("This runbook does not exist.") from error

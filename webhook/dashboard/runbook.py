"""Read the runbook of a detector or alert from manifests/monitoring/runbooks, and show it.

Of their Markdown a page has paragraphs, lists, tables and code blocks; of a link it has the text.

An item of a list that begins with a word of MODES or ACTORS, as `**Webhook:**`, is for that alone.
Where mode and actors are known, only what applies is shown, and names are filled in.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import cache
from importlib import resources
from itertools import groupby
from typing import Final, NamedTuple

from markdown_it import MarkdownIt
from markdown_it.tree import SyntaxTreeNode

from genguard.detection.finding import Confidence, Finding
from webhook.dashboard.page import MissingError, PageContext, PageData

_MARKDOWN: Final = MarkdownIt("commonmark", {"html": False}).enable("table")
_SPANS: Final = {"code_inline": "code", "strong": "strong"}
_LISTS: Final = ("ol", "ul")
_WHAT_TO_DO: Final = "At 3 a.m."
MODES: Final = {"Audit-only:": "audit-only", "Enforcing:": "enforcing"}
ACTORS: Final = {"Webhook:": "webhook", "User:": "user", "Policy:": "policy"}
_INSTALL: Final = "genguard install --image IMAGE"
_PLACEHOLDER: Final = re.compile(r"(?<![\w$\"%.:-])[A-Z][A-Z_]{3,}(?![\w=])")
_SAFE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@-]*")
"""Names that mean nothing else to a shell: who forges a review chooses names."""


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


def runbook_of(found: Finding, mode: str, enforce: str = "") -> Runbook:
    """Return the runbook of a finding: what applies in this mode and to its actors, with names.

    Beside the steps of the finding (genguard/detection/fix.py), that is without what these say.

    enforce  the command that makes genguard enforcing; "" where none is known
    """
    sure = {one.type for one in found.actors if one.confidence is not Confidence.POSSIBLE}
    page = runbook(found.detector)
    page = _without(page, (*MODES, "Webhook:", "Policy:")) if found.fix else page
    page = _fitting(page, mode, sure)
    return _mapped(page, lambda span: _filled(span, _names(found), enforce))


def _fitting(page: Runbook, mode: str, actors: Collection[str] | None = None) -> Runbook:
    """Leave out what is for another mode, or for other types of actors; None for any actor."""
    others = [lead for lead, one in MODES.items() if mode not in ("", one)]
    if actors is not None:
        others += [lead for lead, one in ACTORS.items() if one not in actors]
    return _without(page, others)


def _without(page: Runbook, leads: Collection[str]) -> Runbook:
    """Leave out the items of lists that begin with one of these."""

    def applies(item: tuple[Span, ...]) -> bool:
        return not (item and item[0].kind == "strong" and item[0].text in leads)

    sections = []
    for section in page.sections:
        kept = (
            block._replace(items=tuple(filter(applies, block.items)))
            if block.kind in _LISTS
            else block
            for block in section.blocks
        )
        sections.append(section._replace(blocks=tuple(one for one in kept if one.items)))
    return page._replace(sections=tuple(one for one in sections if one.blocks))


def _mapped(page: Runbook, change: Callable[[Span], Span]) -> Runbook:
    """Return the page with each span changed."""

    def changed(blocks: Iterable[Block]) -> tuple[Block, ...]:
        return tuple(
            one._replace(items=tuple(tuple(map(change, item)) for item in one.items))
            for one in blocks
        )

    sections = tuple(one._replace(blocks=changed(one.blocks)) for one in page.sections)
    return page._replace(intro=changed(page.intro), sections=sections)


def _names(found: Finding) -> Mapping[str, str]:
    """Return the names that stand for the placeholders of a runbook."""
    where = found.subject
    by_type = {one.type: one.name for one in reversed(found.actors)}
    names = {
        "NAMESPACE": where.namespace,
        "NAME": where.name,
        "KIND": where.resource_name,
        "RESOURCE": where.resource_name,
        "CUSTOM_RESOURCE_DEFINITION": where.resource_name,
        "WEBHOOK_CONFIGURATION": by_type.get("webhook", "").partition("/")[0],
        "POLICY": by_type.get("policy", ""),
        "USER": by_type.get("user", ""),
    }
    return {key: value for key, value in names.items() if _SAFE.fullmatch(value)}


def _filled(span: Span, names: Mapping[str, str], enforce: str) -> Span:
    """Fill in the names that are known. An object outside of namespaces needs no flag for one."""
    text = span.text.replace(_INSTALL, enforce) if enforce else span.text
    if "NAMESPACE" not in names:
        text = text.replace(" -n NAMESPACE", "")
    return span._replace(text=_PLACEHOLDER.sub(lambda found: names.get(found[0], found[0]), text))


def read(name: str, text: str) -> Runbook:
    """Parse the text of a runbook."""
    sections: list[tuple[str, list[Block]]] = []
    for node in SyntaxTreeNode(_MARKDOWN.parse(text)).children:
        if node.type == "heading":
            sections.append((node.children[0].content, []))
        else:
            sections[-1][1].append(_block(node))
    (_, intro), *others = sections
    return Runbook(name, tuple(intro), tuple(Section(title, tuple(one)) for title, one in others))


def _block(node: SyntaxTreeNode) -> Block:
    if node.type == "fence":
        return Block("pre", ((Span("text", node.content.rstrip("\n")),),))
    items = tuple(tuple(_spans(one)) for one in node.walk() if one.type == "inline")
    width = len(node.children[0].children[0].children) if node.type == "table" else 1
    return Block(node.tag, items, width)


def _spans(line: SyntaxTreeNode) -> Iterator[Span]:
    for kind, nodes in groupby(line.children, lambda one: one.type.replace("softbreak", "text")):
        leaves = [leaf for node in nodes for leaf in node.walk()]
        if text := "".join(" " if leaf.type == "softbreak" else leaf.content for leaf in leaves):
            yield Span(_SPANS.get(kind, "text"), text)


async def load(context: PageContext, query: Mapping[str, str], _: float) -> PageData:
    """Return the page of a runbook, for people without internet access; raises MissingError."""
    name = query["name"]
    if not name.replace("-", "").isalnum():
        raise MissingError("This runbook does not exist.")
    try:
        return PageData(_fitting(runbook(name), context.sources.about().get("mode", "")), {})
    except FileNotFoundError as error:
        raise MissingError("This runbook does not exist.") from error

"""Read the runbook of a detector or alert from manifests/monitoring/runbooks, and show it.

It reads the Markdown that those pages use: paragraphs, lists, tables and code blocks; code, strong
text and links.

An item of a list that begins with a word of MODES or ACTORS, as `**Webhook:**`, is for that alone.
Where mode and actors are known, only what applies is shown, and names are filled in.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib import resources
from typing import Final, NamedTuple

from genguard.detection.finding import Confidence, Finding
from webhook.dashboard.page import MissingError, PageContext, PageData

_SPAN: Final = re.compile(r"`([^`]+)`|\*\*([^*]+)\*\*|\[([^\]]+)\]\(([^)]+)\)")
_CELL: Final = re.compile(r"\| ((?:`[^`]*`|[^|`])*) (?=\|)")
_RULE: Final = re.compile(r"[-| :]+")
_LISTS: Final = ("ol", "ul")
_WHAT_TO_DO: Final = "At 3 a.m."
_ITEM: Final = re.compile(r"(?:[0-9]+\.|-) ")
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
    where = found.object
    resource = f"{where.resource}.{where.group}".rstrip(".")
    by_type = {one.type: one.name for one in reversed(found.actors)}
    names = {
        "NAMESPACE": where.namespace,
        "NAME": where.name,
        "KIND": resource,
        "RESOURCE": resource,
        "CUSTOM_RESOURCE_DEFINITION": resource,
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


async def load(context: PageContext, query: Mapping[str, str], _: float) -> PageData:
    """Return the page of a runbook, for people without internet access; raises MissingError."""
    name = query["name"]
    if not name.replace("-", "").isalnum():
        raise MissingError("This runbook does not exist.")
    try:
        return PageData(_fitting(runbook(name), context.sources.about().get("mode", "")), {})
    except FileNotFoundError as error:
        raise MissingError("This runbook does not exist.") from error

"""Read the runbook of a detector or alert from manifests/monitoring/runbooks, and show it.

A page has only the text of a link. An item of a list that begins with a word of MODES or ACTORS, as
`**Webhook:**`, or with a type of actors, as "Type `webhook`", is for that alone: where mode and
actors are known, only what applies is shown, and names are filled in.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from functools import cache
from html import escape
from importlib import resources
from typing import Any, Final, NamedTuple

from markdown_it import MarkdownIt
from markdown_it.token import Token

from genguard.detection.finding import Confidence, Finding
from webhook.dashboard.page import MissingError, PageContext, PageData

MODES: Final = {"**Audit-only:**": "audit-only", "**Enforcing:**": "enforcing"}
ACTORS: Final = {"**Webhook:**": "webhook", "**User:**": "user", "**Policy:**": "policy"}
_INSTALL: Final = "genguard install --image IMAGE"
_PLACEHOLDER: Final = re.compile(r"(?<![\w$\"%.:-])[A-Z][A-Z_]{3,}(?![\w=])")
_SAFE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@-]*")
"""Names that mean nothing else to a shell: who forges a review chooses names."""
_ITEM: Final = r"^(?:1\.|-) (?:{}).*\n(?: +.*\n)*"
_MARKUP: Final = {
    "<table>": '<div class="scroll" role="region" aria-label="Table" tabindex="0"><table>',
    "</table>": "</table></div>",
    "<th>": '<th scope="col">',
    "<td>": '<td class="words">',
}


class Section(NamedTuple):
    """A heading, and the HTML below it."""

    title: str
    html: str


class Runbook(NamedTuple):
    """One runbook; `intro` is the HTML before the first heading."""

    name: str
    intro: str
    sections: tuple[Section, ...]


@cache
def source(name: str) -> str:
    """Read the Markdown of a runbook. Raises FileNotFoundError."""
    pages = resources.files("manifests").joinpath("monitoring", "runbooks")
    return pages.joinpath(f"{name}.md").read_text("utf-8")


def read(
    text: str,
    without: Iterable[str] = (),
    names: Mapping[str, str] | None = None,
    enforce: str = "",
) -> Runbook:
    """Render the Markdown of a runbook.

    without  the leads of items that are left out
    names    what stands for placeholders; None leaves them
    enforce  the command that makes genguard enforcing; "" where none is known
    """
    text = re.sub(r"^\d+\. ", "1. ", text, flags=re.MULTILINE)  # a list begins with 1 again
    if leads := "|".join(map(re.escape, without)):
        text = re.sub(_ITEM.format(leads), "", f"{text}\n", flags=re.MULTILINE)
    (name, intro), *others = (
        part.partition("\n")[::2] for part in re.split(r"^##? ", text, flags=re.MULTILINE)[1:]
    )

    def html(part: str) -> str:
        tokens = _MARKDOWN.parse(part)
        for token in tokens if names is not None else ():
            for piece in (token, *(token.children or ())):
                piece.content = _filled(piece.content, names or {}, enforce)
        found = _MARKDOWN.renderer.render(tokens, _MARKDOWN.options, {})
        for plain, marked in _MARKUP.items():
            found = found.replace(plain, marked)
        return str(found)

    sections = (Section(title, html(below)) for title, below in others if below.strip())
    return Runbook(name, html(intro), tuple(sections))


def runbook_of(found: Finding, mode: str, enforce: str = "") -> Runbook:
    """Return the runbook of a finding: what applies in this mode and to its actors, with names.

    It leaves out what the steps of the finding beside it say (genguard/detection/fix.py).
    """
    types = {actor: "user" if actor.type == "manager" else actor.type for actor in found.actors}
    sure = [types[actor] for actor in found.actors if actor.confidence is not Confidence.POSSIBLE]
    known = types.values() or ACTORS.values()
    without = {*_others(mode, sure), *(f"Type `{word}`" for word in {*ACTORS.values()} - {*known})}
    without |= {*MODES, "**Webhook:**", "**Policy:**"} if found.fix else set()
    return read(source(found.detector), sorted(without), _names(found), enforce)


def _others(mode: str, actors: Collection[str] = tuple(ACTORS.values())) -> list[str]:
    """The leads of what is for another mode, or for other types of actors."""
    return [lead for lead, other in MODES.items() if mode not in ("", other)] + [
        lead for lead, actor in ACTORS.items() if actor not in actors
    ]


def _names(found: Finding) -> Mapping[str, str]:
    """Return the names that stand for the placeholders of a runbook."""
    where = found.subject
    by_type = {actor.type: actor.name for actor in reversed(found.actors)}
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


def _filled(text: str, names: Mapping[str, str], enforce: str) -> str:
    """Fill in the names that are known. An object outside of namespaces needs no flag for one."""
    text = text.replace(_INSTALL, enforce) if enforce else text
    if "NAMESPACE" not in names:
        text = text.replace(" -n NAMESPACE", "")
    return _PLACEHOLDER.sub(lambda found: names.get(found[0], found[0]), text)


async def load(context: PageContext, query: Mapping[str, str], _: float) -> PageData:
    """Return the page of a runbook, for people without internet access; raises MissingError."""
    name = query["name"]
    try:
        text = source(name) if name.replace("-", "").isalnum() else ""
    except FileNotFoundError:
        text = ""
    if not text:
        raise MissingError("This runbook does not exist.")
    return PageData(read(text, _others(context.sources.about().get("mode", ""))), {})


def _nothing(*_: Any) -> str:
    return ""


def _code(_: Any, tokens: list[Token], at: int, *__: Any) -> str:
    return f'<pre tabindex="0"><code>{escape(tokens[at].content.rstrip(chr(10)))}</code></pre>\n'


_MARKDOWN: Final = MarkdownIt("commonmark", {"html": False}).enable("table")
_MARKDOWN.add_render_rule("link_open", _nothing)
_MARKDOWN.add_render_rule("link_close", _nothing)
_MARKDOWN.add_render_rule("fence", _code)

"""The commands of the runbooks and of the pages about installing: `commands()`.

A command of a page stands in a block of `sh`. A runbook's also stands in backquotes within a
sentence. What the reader must fill in is a word in capitals, one of PLACEHOLDERS.
"""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.cases_loader import read_beside

ROOT = Path(__file__).parents[1]
RUNBOOKS = ROOT / "manifests" / "monitoring" / "runbooks"
_DATA = read_beside(__file__, "runbook_commands.yaml")
PAGES: Sequence[str] = _DATA["pages"]
PLACEHOLDERS: Mapping[str, str] = _DATA["placeholders"]
MENTIONED = frozenset(
    {"kubectl rollout status", "kubectl scale", "kubectl apply -k", "genguard replay"}
)
"""What a sentence names and nobody is to type: `kubectl rollout status` waits for ever."""
_BLOCK = re.compile(r"^```sh\n(.*?)^```", re.DOTALL | re.MULTILINE)
_INLINE = re.compile(r"`((?:kubectl|genguard|curl) [^`]+)`")
_CAPITALS = re.compile(r"(?<![\w$\"%.:-])[A-Z][A-Z_]{3,}(?![\w=])")
_WATCHES = re.compile(r" -w\b|port-forward|^docker run ")


@dataclass(frozen=True, slots=True)
class Command:
    """One command as a reader types it.

    page  the file, from the top folder of the repository
    line  where it begins in the file, counted from 1
    text  without the comment behind it; it may have several lines
    """

    page: str
    line: int
    text: str

    @property
    def placeholders(self) -> set[str]:
        """The words in capitals that the reader fills in."""
        return set(_CAPITALS.findall(self.text))

    @property
    def is_endless(self) -> bool:
        """It goes on until it is interrupted: it watches, forwards a port or serves."""
        return self.text.endswith("&") or bool(_WATCHES.search(self.text))

    def filled(self, values: Mapping[str, str]) -> str:
        """The text with a value for each placeholder. Raises KeyError where one is missing."""
        return _CAPITALS.sub(lambda match: values[match[0]], self.text)


def commands() -> list[Command]:
    """Every command of every runbook and page, in the order in which they stand."""
    runbooks = sorted(RUNBOOKS.glob("*.md"))
    found = [one for path in runbooks for one in _of(path, inline=True)]
    return found + [one for page in PAGES for one in _of(ROOT / page, inline=False)]


def _of(path: Path, *, inline: bool) -> list[Command]:
    text, page = path.read_text(), str(path.relative_to(ROOT))
    found = [
        Command(page, line, command)
        for block in _BLOCK.finditer(text)
        for line, command in _split(block[1], text.count("\n", 0, block.start(1)) + 1)
    ]
    if inline:
        sentences = _BLOCK.sub(lambda block: "\n" * block[0].count("\n"), text)
        found += [
            Command(page, sentences.count("\n", 0, match.start()) + 1, match[1].replace("\n", " "))
            for match in _INLINE.finditer(sentences)
            if match[1] not in MENTIONED
        ]
    return sorted(found, key=lambda one: one.line)


def _split(block: str, first: int) -> Iterator[tuple[int, str]]:
    """The commands of a block, each with its line: a quotation or a `\\` goes on in the next."""
    begun, begin = "", first
    for number, line in enumerate(block.splitlines(), first):
        begin = begin if begun else number
        begun = f"{begun}\n{line}" if begun else line
        try:
            words = shlex.split(begun, comments=True)
        except ValueError:  # the quotation goes on
            continue
        if begun.endswith("\\"):
            continue
        if words:
            yield begin, re.sub(r"\s+#(?: .*)?$", "", begun)
        begun = ""

"""What Argo CD's health checks and Flux' evaluator say: a run of the program healthtools."""

import json
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from tests.controlplane.build import binary

Document = dict[str, Any]
Rule = dict[str, str]


@dataclass(frozen=True)
class Recorded:
    """An object on which Argo CD tests its own checks, where it is, and what they should say."""

    path: str
    object: Document
    expected: str


@cache
def recorded() -> tuple[Recorded, ...]:
    """Every such object, in the order of their paths."""
    return tuple(Recorded(**line) for line in _run(["recorded"], ""))


def ask_tools(documents: Sequence[Document], rules: Sequence[Rule | None]) -> list[dict[str, Any]]:
    """`argo` and `flux` of each document; flux is None without a rule for the document."""
    asked = zip(documents, rules, strict=True)
    lines = (json.dumps({"object": document, "rule": rule}) for document, rule in asked)
    return _run([], "".join(f"{line}\n" for line in lines))


def _run(words: list[str], text: str) -> list[dict[str, Any]]:
    done = subprocess.run(
        [binary("healthtools"), *words], input=text, capture_output=True, text=True, check=True
    )
    return [json.loads(line) for line in done.stdout.splitlines()]

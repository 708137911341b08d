"""What kstatus, Argo CD and kubectl themselves say of objects: a run of the program statusviews."""

import json
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from tests.controlplane.build import binary


@dataclass(frozen=True)
class Evaluated:
    """One object with the word of each tool, and what the tool says beside it."""

    document: dict[str, Any]
    words: dict[str, str | None]
    messages: dict[str, str]


def ask_tools(documents: Iterable[dict[str, Any]]) -> list[Evaluated]:
    """In the order of the documents; the tools read the real clock."""
    asked = list(documents)
    done = subprocess.run(
        [binary("statusviews")],
        input="".join(f"{json.dumps(document)}\n" for document in asked),
        capture_output=True,
        text=True,
        check=True,
    )
    answers = map(json.loads, done.stdout.splitlines())
    return [
        Evaluated(document, {tool: answer[tool] for tool in answer["messages"]}, answer["messages"])
        for document, answer in zip(asked, answers, strict=True)
    ]

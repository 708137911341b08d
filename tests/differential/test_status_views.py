"""The views of other tools, word for word: the tools themselves evaluate the same objects.

kstatus, Argo CD's health checks and kubectl's rollout viewers are linked into the program
tests/controlplane/statusviews. It and the product are given every variation of status_samples.yaml,
random ones, and objects as real API servers sent them.
"""

import json
import os
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from genguard.status.views.argo import argo
from genguard.status.views.kstatus import kstatus
from genguard.status.views.rollout import rollout
from tests.cases_loader import read_beside
from tests.controlplane.build import binary
from tests.differential.status_samples import generated, recorded
from tests.differential.status_tools import Evaluated, ask_tools

SEED = int(os.environ.get("GENGUARD_SEED", "1"))
RANDOM_OBJECTS_OF_EACH_KIND = 250


@pytest.fixture(scope="module")
def at() -> float:
    binary("statusviews")  # built before the clock counts: a young Pod is so for 105 seconds
    return time.time()


@pytest.fixture(scope="module")
def samples(at: float) -> list[Evaluated]:
    return ask_tools(generated(SEED, at, RANDOM_OBJECTS_OF_EACH_KIND))


@pytest.fixture(scope="module")
def recordings() -> list[Evaluated]:
    return ask_tools(recorded(600))


@pytest.fixture(scope="module", params=["kstatus", "argo", "rollout"])
def tool(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def view(tool: str, at: float) -> Callable[[dict[str, Any]], str | None]:
    """What the product says in that tool's words."""
    return {"kstatus": lambda document: kstatus(document, at), "argo": argo, "rollout": rollout}[
        tool
    ]


def test_generated_objects_are_evaluated_as_the_tool_evaluates_them(samples, tool, view):
    assert len(samples) > 10_000
    _agree(samples, tool, view)


def test_recorded_objects_are_evaluated_as_the_tool_evaluates_them(recordings, tool, view):
    assert len(recordings) > 300
    _agree(recordings, tool, view)


@pytest.mark.parametrize(("tool", "words"), read_beside(__file__, "status_words.yaml").items())
def test_the_objects_bring_out_every_word_of_the_tool(samples, tool, words):
    said = Counter((_kind(one), str(one.words[tool])) for one in samples)
    missing = {
        (kind, word)
        for kind, named in words.items()
        for word in named.split()
        if not said[kind, word]
    }
    assert not missing, f"never said by {tool}; said: {sorted(said.items())}"


def _agree(
    evaluated: list[Evaluated], tool: str, view: Callable[[dict[str, Any]], str | None]
) -> None:
    """Not one differs: there are no exceptions, for Argo CD neither."""
    differ = [
        f"{tool} says {one.words[tool]} ({one.messages[tool]}), genguard {word} of "
        f"{json.dumps(one.document)}"
        for one in evaluated
        if (word := view(one.document)) != one.words[tool]
    ]
    said = Counter(f"{_kind(one)} {one.words[tool]}" for one in evaluated)
    assert not differ, "\n".join(
        [f"{len(differ)} of {len(evaluated)} differ", *differ[:20], f"said: {sorted(said.items())}"]
    )


def _kind(evaluated: Evaluated) -> str:
    return str(evaluated.document.get("kind"))

"""Makes reproducers of recorded scenarios, and plays what they hand over, in this process."""

import importlib.util
import os
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

import msgspec

from genguard.detection.finding import Finding
from genguard.replay import Replay
from genguard.reproduce.recorded import NewReplay, RecordedWrite, findings_in, writes_of
from genguard.reproduce.reproducer import Reproducer, folder_of, reproducer
from genguard.review_setup import ReviewOptions
from genguard.testing import LoopError
from tests.scenarios import recording
from tests.scenarios.expecting import _is_wanted, expectations
from tests.unit.detection.evaluating import CONDITIONS
from webhook.files.given import load_definitions, load_mutators

EXPECTED = expectations()
_SAME = ("detector", "resource", "name", "subresource", "severity", "causedBy")
LOOPS = [name for name, one in EXPECTED.items() if one.find]


def new_replays(name: str) -> NewReplay:
    """What replays a scenario, with the registrations that were there."""
    mutators = load_mutators(recording.webhooks_of(name), CONDITIONS)
    options = ReviewOptions(custom_resources=load_definitions(recording.DEFINITIONS))
    return lambda: Replay(options, mutators.anew())


def found_in(name: str, writes: list[RecordedWrite]) -> Finding:
    """The finding of a loop that must be there, whoever is named."""
    wanted = {key: one for key, one in EXPECTED[name].find[0].items() if key in _SAME}
    known = findings_in(writes, new_replays(name))
    return next(one for one in known if _is_wanted(msgspec.to_builtins(one), wanted))


def made_of(
    name: str, change: Callable[[bytes], bytes] = lambda line: line
) -> tuple[Reproducer, list[RecordedWrite]]:
    """The reproducer of a recorded loop, and the writes that it was made of."""
    writes, _ = writes_of(map(change, recording.read_lines(name)))
    found = found_in(name, writes)
    return reproducer(writes, found, new_replays(name), server_version="1.36"), writes


def loaded(folder: Path) -> ModuleType:
    """The test module of a folder, as pytest loads it."""
    spec = importlib.util.spec_from_file_location("handed_over", folder / "test_reproduce.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def red_for(
    folder: Path, webhook: Callable[[dict[str, Any]], Any] | None = None, **environment: str
) -> dict[str, list[str]]:
    """What the test of a folder fails for, with this webhook: who does it, by detector."""
    with mock.patch.dict(os.environ, environment):
        module = loaded(folder)
        if webhook is not None:
            module.culprit = lambda: webhook  # type: ignore[attr-defined]
        try:
            module.test_the_writes_come_to_rest()
        except LoopError as error:
            return {one.detector: [who.name for who in one.actors] for one in error.findings}
    return {}


def written(made: Reproducer, folder: Path) -> Path:
    for file, content in folder_of(made).items():
        (folder / file).write_bytes(content)
    return folder

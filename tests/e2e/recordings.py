"""Compares what genguard predicted for recorded writes with what the API server stored."""

import json
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from tests.controlplane.client import WatchEvent
from tests.e2e.genguard import ROOT


class Write(NamedTuple):
    """What is equal in the phases of one write, and different for the next one."""

    uid: str
    stored: str
    operation: str
    subresource: str
    user: str


@dataclass(frozen=True, slots=True)
class ExaminedReview:
    """One recorded review and genguard's prediction for it."""

    phase: str
    request: dict[str, Any]
    predicted: int | None
    step: int | None
    cause: str

    @property
    def write(self) -> Write:
        old = (self.request["oldObject"] or {}).get("metadata", {})
        return Write(
            old.get("uid", ""),
            old.get("resourceVersion", ""),
            self.request["operation"],
            self.request.get("subResource", ""),
            self.request["userInfo"]["username"],
        )


def examined(recording: Path, kind: str) -> list[ExaminedReview]:
    """What `genguard replay` says of each review of a kind's own objects: not of Scale, Binding."""
    command = [sys.executable, "-m", "webhook", "replay", "-o", "json", str(recording)]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    *printed, summary = map(json.loads, done.stdout.splitlines())
    lines = [line for line in printed if line["type"] == "review"]
    loops = [line for line in printed if line["type"] == "finding" and line["severity"] != "info"]
    assert loops == [], f"ordinary traffic, and yet a loop is found: {loops}"
    recorded = list(map(json.loads, recording.read_text().splitlines()))
    assert summary["reviews"] == len(lines) == len(recorded)
    assert not summary["unreadable"]
    return [
        ExaminedReview(
            line["phase"],
            one["review"]["request"],
            line["predictedGeneration"],
            line["step"],
            line["cause"],
        )
        for line, one in zip(lines, recorded, strict=True)
        if one["review"]["request"]["kind"]["kind"] == kind
    ]


def wrong_predictions(reviews: Iterable[ExaminedReview]) -> Iterator[str]:
    """Outcomes, and the mutate calls before them, whose generation came out differently.

    A PATCH that begins with what the API server's cache still has is run twice: its first run is
    equal to the write before it in all that `Write` has, so a mutate call belongs to the outcome
    that comes next.
    """
    asked: defaultdict[Write, list[ExaminedReview]] = defaultdict(list)
    for one in reviews:
        if one.phase == "mutate" and one.request["operation"] != "CREATE":
            asked[one.write].append(one)
        if one.phase != "outcome" or one.request["object"] is None:
            continue
        made = one.request["object"]["metadata"].get("generation")
        for each in (*asked.pop(one.write, ()), one):
            if each.predicted != made:
                yield f"{each.phase} of {one.write}: predicted {each.predicted}, is {made}"


def unpredicted_changes(
    events: Iterable[WatchEvent], reviews: Iterable[ExaminedReview]
) -> Iterator[str]:
    """Stored versions of a watch that no outcome review predicted the generation of."""
    predicted: dict[tuple[str, str], set[int | None]] = defaultdict(set)
    for one in reviews:
        if one.phase == "outcome":
            predicted[one.write.uid, one.write.stored].add(one.predicted)
    versions: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for event in events:
        versions[event.object["metadata"]["uid"]].append(event.object["metadata"])
    for uid, stored in versions.items():
        for old, new in pairwise(stored):
            # Whatever was not watched, as a binding, moves nothing.
            expected = predicted.get((uid, old["resourceVersion"]), {old["generation"]})
            if new["generation"] not in expected:
                yield f"{new['name']}: {old['generation']} to {new['generation']}, not {expected}"

"""Recorded scenarios over three replicas that see a third of the reviews each, and a leader."""

import json
from collections.abc import Iterator
from datetime import datetime
from itertools import cycle

import pytest
from msgspec.structs import replace

from genguard.admission.review import Phase
from genguard.detection.detection import Detection
from genguard.detection.mutators import Mutators
from genguard.detection.observation import decode_observation, encode_observation
from genguard.detection.reduce import Reviewed
from genguard.review import review
from genguard.review_setup import ReviewOptions, ReviewSetup
from tests.scenarios import recording
from tests.scenarios.catalogue import catalogue
from tests.unit.detection.evaluating import CONDITIONS
from webhook.files.given import load_definitions, load_mutators
from webhook.store.replicas import SECONDS_ON_THE_WAY, ObservationQueue

DEPENDENCIES = ReviewSetup(
    ReviewOptions(server_version="1.36", custom_resources=load_definitions(recording.DEFINITIONS))
).dependencies


def mutators(name: str) -> Mutators:
    return load_mutators(recording.webhooks_of(name), CONDITIONS)


SOON_OVER = frozenset({"custom-status-removed-beside-a-condition-that-is-false"})
"""Before the replicas know that its kind is changed: conditions were not asked."""


def reviews(name: str) -> Iterator[tuple[Phase, Reviewed, float]]:
    """The reviews of a recording that are examined, with their times."""
    for line in recording.read_lines(name):
        told = json.loads(line)
        phase, now = Phase(told["phase"]), datetime.fromisoformat(told["time"]).timestamp()
        body = json.dumps(told["review"]).encode()
        result = review(body, phase, DEPENDENCIES, now).result
        assert result.request is not None
        if result.prediction is not None:
            yield phase, Reviewed(result.request, result.prediction, result.status), now


@pytest.mark.parametrize("name", sorted(catalogue()))
def test_a_leader_finds_in_the_observations_of_all_replicas_what_one_process_finds(name):
    """Replicas that do not lead know nothing of a write but what they see of it."""
    alone, leader = (Detection(mutators(name)) for _ in range(2))
    replicas = [Detection(mutators(name)) for _ in range(3)]
    came: list[tuple[float, int, bytes]] = []
    now = 0.0
    for (phase, reviewed, now), nearest in zip(reviews(name), cycle(replicas), strict=False):
        if phase is Phase.OUTCOME:
            nearest.expect_outcomes(reviewed.request)
        observation, shared = (one.observe(phase, reviewed, now) for one in (alone, nearest))
        assert (observation is None) is (shared is None)
        if observation is not None and shared is not None:
            alone.see(observation)
            late = len(came) % 7 / 7 * SECONDS_ON_THE_WAY
            came.append((now + late, len(came), encode_observation(shared)))
    queue = ObservationQueue()
    for at, _, raw in (*sorted(came), (float("inf"), 0, b"")):
        if raw:
            queue.put(decode_observation(raw), at)
        for one in queue.due(at):
            leader.see(one)
    for detection in (alone, leader):
        detection.finish(now)
    found = [detection.findings() for detection in (leader, alone)]
    if name in SOON_OVER:
        found = [tuple(replace(one, actors=()) for one in several) for several in found]
    assert found[0] == found[1]

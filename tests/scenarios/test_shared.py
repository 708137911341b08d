"""Recorded scenarios over three replicas that see a third of the reviews each, and every fact."""

import json
from datetime import datetime
from itertools import cycle

import pytest

from genguard.admission.review import Phase
from genguard.detection.correlate import SECONDS_ON_THE_WAY
from genguard.detection.detection import Detection
from genguard.detection.fact import encode_fact
from genguard.detection.reduce import Reviewed
from genguard.detection.suspects import Suspects
from genguard.review import review
from genguard.review_setup import ReviewOptions, ReviewSetup
from tests.scenarios import recording
from tests.scenarios.catalogue import catalogue
from tests.unit.detection.evaluating import CONDITIONS
from webhook.given_files import load_definitions, load_registrations

DEPENDENCIES = ReviewSetup(
    ReviewOptions(server_version="1.36", custom_resources=load_definitions(recording.DEFINITIONS))
).dependencies


def suspects(name: str) -> Suspects:
    return load_registrations(recording.FOLDER / f"{name}.webhooks.json", CONDITIONS)


@pytest.mark.parametrize("name", sorted(catalogue()))
def test_replicas_that_share_facts_find_what_one_process_finds(name):
    alone = Detection(suspects(name), compares_all=True)
    replicas = [Detection(suspects(name), compares_all=True) for _ in range(3)]
    came: list[tuple[float, bytes]] = []
    now = 0.0
    for line, nearest in zip(recording.read_lines(name), cycle(replicas), strict=False):
        told = json.loads(line)
        phase, now = Phase(told["phase"]), datetime.fromisoformat(told["time"]).timestamp()
        body = json.dumps(told["review"]).encode()
        verdict = review(body, phase, DEPENDENCIES, now).verdict
        assert verdict.request is not None
        if verdict.prediction is None:
            continue
        reviewed = Reviewed(verdict.request, verdict.prediction, verdict.status)
        fact, shared = (one.fact(phase, reviewed, now) for one in (alone, nearest))
        assert (fact is None) is (shared is None)
        if fact is not None and shared is not None:
            alone.see(fact)
            raw = encode_fact(shared)
            for one in replicas:
                one.see_encoded(raw)
            late = len(came) % 7 / 7 * SECONDS_ON_THE_WAY
            came.append((now + late, raw))
    elsewhere = Detection(suspects(name), compares_all=True)
    for _, raw in sorted(came):
        elsewhere.see_encoded(raw)
    for one in (alone, *replicas, elsewhere):
        one.finish(now)
    assert [one.findings() for one in (*replicas, elsewhere)] == [alone.findings()] * 4

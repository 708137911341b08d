"""What is remembered of very many objects is bounded, and costs little while it rests."""

import gc
import json
import tracemalloc
from collections.abc import Callable

import pytest

from genguard.admission.decode import decode_review
from genguard.admission.matching import read_configurations
from genguard.admission.review import Phase
from genguard.detection import changes, correlate, ledger
from genguard.detection.detection import Detection
from genguard.detection.history import MOST_LEAVES, MOST_OBJECTS, MOST_WRITES, History
from genguard.detection.mutators import Mutators
from genguard.detection.observation import Observation
from genguard.detection.reduce import Reviewed
from genguard.review import review
from genguard.review_setup import ReviewOptions, ReviewSetup
from tests.contract.hoard import ATTACKS
from tests.reviews import make_review
from tests.unit.detection.test_history import add, write
from tools.bench.tracked import DEPLOYMENTS, PODS, Reviews, follow

MIB = 1024 * 1024
BYTES_OF_LEAF = 2 * 1024
"""What a leaf takes at most, or as much of a long one as counts as one."""
DEPS = ReviewSetup(ReviewOptions()).dependencies

COUNT = 50_000
"""Each of 3,000 objects is written 16 times, and 500 have room."""


@pytest.mark.slow
def test_any_number_of_observations_stays_inside_the_bounds():
    history = History(500, most_writes=1_000)
    for number in range(COUNT):
        add(history, write(number * 7919 % 3_000, number / 100))
        assert history.records <= 1_000
    assert len(history) <= 500


SCALE = 100


@pytest.mark.slow
@pytest.mark.parametrize(
    ("example", "by_turns"),
    [
        pytest.param(PODS, False, id="pods", marks=pytest.mark.nightly),
        pytest.param(PODS, True, id="pods written alternately"),
        pytest.param(DEPLOYMENTS, False, id="deployments", marks=pytest.mark.nightly),
    ],
)
def test_a_hundred_thousand_objects_take_less_than_300_mib(example, by_turns):
    """In a model of a hundredth."""
    reviews = Reviews(example)
    bounds = MOST_OBJECTS, MOST_WRITES, MOST_LEAVES
    history = History(*(most // SCALE for most in bounds))
    follow(Detection(), reviews, 100)  # whatever is made once, places of leaves among it
    gc.collect()
    tracemalloc.start()
    try:
        follow(Detection(history=history), reviews, MOST_OBJECTS // SCALE, by_turns=by_turns)
        gc.collect()
        taken = tracemalloc.get_traced_memory()[0] * SCALE
    finally:
        tracemalloc.stop()
    assert len(history) == MOST_OBJECTS // SCALE
    assert taken < 300 * MIB
    assert history.records * SCALE <= MOST_WRITES
    assert history.leaves * SCALE <= MOST_LEAVES


def traced(fill: Callable[[int], object], count: int) -> int:
    """Bytes that are taken by what so many calls have left."""
    gc.collect()
    tracemalloc.start()
    try:
        for number in range(count):
            fill(number)
        gc.collect()
        return tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()


def observation_of(detection: Detection, path: str, body: bytes, at: float) -> Observation:
    """What a review shows, as the server has detection take it in."""
    phase = Phase(path.removeprefix("/"))
    result = review(body, phase, DEPS, at).result
    assert result.request is not None
    assert result.prediction is not None
    reviewed = Reviewed(result.request, result.prediction, result.status)
    observation = detection.observe(phase, reviewed, at)
    assert observation is not None
    return observation


def examined(detection: Detection, attack: str) -> Callable[[int], None]:
    """Feeds the reviews of an attack (tests/contract/hoard.py) to a detection."""

    def feed(number: int) -> None:
        for path, body in ATTACKS[attack](number):
            detection.see(observation_of(detection, path, body, 1_000.0 + number / 1_000))

    return feed


@pytest.mark.slow
@pytest.mark.parametrize(
    ("attack", "count", "most"),
    [
        ("writes without an end", 25, 3_000),
        pytest.param("leaves far down", 8, 1_000, marks=pytest.mark.nightly),
        pytest.param("statuses with long types", 12, 1_000, marks=pytest.mark.nightly),
    ],
)
def test_what_takes_much_is_counted_in_leaves(monkeypatch, attack, count, most):
    monkeypatch.setattr(correlate, "MOST_LEAVES_PENDING", most)
    history = History(most_leaves=most)
    detection = Detection(history=history)
    feed = examined(detection, attack)
    feed(count)  # whatever is made once
    taken = traced(feed, count)
    # Places are kept beside it, and the newest write, whatever it takes.
    beside = BYTES_OF_LEAF * changes.MOST_NODES
    assert taken < BYTES_OF_LEAF * (2 * most + history.leaves) + beside + 12 * MIB


@pytest.mark.slow
def test_findings_with_long_fields_are_counted_in_bytes(monkeypatch):
    monkeypatch.setattr(ledger, "MOST_BYTES", MIB)
    detection = Detection(history=History(1))
    taken = traced(examined(detection, "findings with long fields"), 60)
    found = detection.ledger
    assert found.bytes <= MIB
    assert detection.dropped == found.dropped == 120 - len(found.findings())
    assert len(found.findings()) > 20
    beside = BYTES_OF_LEAF * changes.MOST_NODES
    assert taken < 2 * MIB + BYTES_OF_LEAF * detection.history.leaves + beside
    assert len(found._about) <= len(found.findings()), "what was dropped is known nowhere else"


def test_findings_of_usual_length_are_bounded_in_number():
    """10,000 of them are within the bound in bytes."""
    detection = Detection()
    for number in range(20):
        for path in ("/intent", "/mutate", "/outcome"):
            asked = make_review(
                new={"status": {"observedGeneration": 4} if path == "/intent" else {}},
                old={"status": {"observedGeneration": 3}},
                subresource="status",
                name=f"checkout-service-{number}-6d4b75cb6d-hx4pl",
                user="system:serviceaccount:kube-system:deployment-controller",
            )
            asked["request"]["oldObject"]["metadata"]["uid"] = f"{number:036}"
            body = json.dumps(asked).encode()
            detection.see(observation_of(detection, path, body, 1_000.0 + number))
    each = detection.ledger.bytes / len(detection.findings())
    assert each * ledger.MOST_FINDINGS < ledger.MOST_BYTES


def test_who_is_called_is_remembered_within_bytes():
    hook = {"name": "a", "rules": [{"apiGroups": ["*"], "resources": ["*"], "operations": ["*"]}]}
    hook["objectSelector"] = {"matchExpressions": [{"key": "a", "operator": "DoesNotExist"}]}
    document = {
        "kind": "MutatingWebhookConfiguration", "metadata": {"name": "a"}, "webhooks": [hook]
    }  # fmt: skip
    mutators = Mutators(read_configurations([document]))

    def ask(number: int) -> None:
        labels = {f"{number}-{one}": "v" * 1_000 for one in range(100)}
        asked = make_review(new={"metadata": {"labels": labels}}, old={"metadata": {}})
        request = decode_review(json.dumps(asked).encode())
        assert mutators.acting_in(Phase.MUTATE, request)[0].first == ("a/a",)

    assert traced(ask, 100) < 5 * MIB


@pytest.mark.slow
def test_places_are_bounded_while_more_come():
    def go_down(number: int) -> None:
        place = changes.ROOT
        for level in range(changes.DEEPEST):
            place = changes.below(place, f"{number}-{level}-\N{PILE OF POO}")

    def grow(_: int) -> None:
        spec = changes.below(changes.ROOT, "spec")
        for number in range(10_000):
            changes.below(spec, f"{number}-\N{PILE OF POO}{'x' * 300}")

    most = 6 * 1024 * changes.MOST_NODES
    assert traced(go_down, 500) < most
    assert traced(grow, 1) < most

    def name_at_length(number: int) -> None:
        for token in (f"{number}{'x' * MIB}", ("name", f"{number}{'x' * MIB}")):
            changes.below(changes.ROOT, token)

    assert traced(name_at_length, 10) < MIB

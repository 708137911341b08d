"""Which reviews are made of the events of a log, and which events cannot be turned into any."""

import json

import msgspec

from genguard.audit.event import Event, read_calls
from genguard.audit.reviewing import Reviewing
from genguard.detection.detection import Detection
from genguard.review_setup import ReviewOptions, ReviewSetup
from tests.cases_loader import table
from tests.unit.audit.samples import Json, deployment, event

PHASES = ["intent", "mutate", "outcome"]


class Told(Detection):
    """Keeps what it is given, and examines nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.seen = []

    def observe(self, phase, reviewed, now):
        del now
        self.seen.append((phase.value, reviewed.request))


def reviewed(*events: Json):
    """The phases that the last event gives, and their last request."""
    detection = Told()
    engine = ReviewSetup(ReviewOptions(server_version="1.36")).dependencies.engine
    reviewing = Reviewing(engine, detection)
    for one in events:
        detection.seen.clear()
        read = msgspec.json.decode(json.dumps(one).encode(), type=Event)
        calls = [call for call in read_calls(read.annotations) if call.mutated]
        reviewing.see(read, read.object_ref, calls)
    phases = [phase for phase, _ in detection.seen]
    return phases, detection.seen[-1][1] if phases else None


def replicas(shown):
    return msgspec.json.decode(shown.spec)["replicas"]


def write(replicas: int, version: int, generation: int = 1, **more) -> Json:
    stored = deployment(generation, version, spec={"replicas": replicas})
    sent = {"spec": {"replicas": replicas}}
    about = {"level": "RequestResponse", "verb": "patch", "subresource": ""}
    return event(**{**about, "sent": sent, "stored": stored, **more})


def created(**more) -> Json:
    stored = deployment(1, 7, spec={"replicas": 1})
    return write(1, 7, **{"verb": "create", "stored": stored, "code": 201, **more})


def test_the_second_write_is_shown_upon_the_first():
    phases, request = reviewed(write(1, 7), write(2, 8, 2))
    assert phases == PHASES
    assert replicas(request.old_object) == 1
    assert replicas(request.object) == 2
    # As in a review: until it is stored an object shows the version that it comes from.
    assert request.object.metadata.resource_version == "7"
    assert request.join_key.resource_version == "7"


def test_a_webhook_in_round_one_gives_a_second_mutate():
    patch = [{"op": "replace", "path": "/spec/replicas", "value": 2}]
    calls = {"patch": patch}, {"patch": patch, "round": 1}
    change = event(
        *calls, level="RequestResponse", verb="patch", subresource="",
        sent={"spec": {"replicas": 5}}, stored=deployment(2, 8, spec={"replicas": 2}),
    )  # fmt: skip
    assert reviewed(write(1, 7), change)[0] == ["intent", "mutate", "mutate", "outcome"]


@table("audit/not_reviewed.yaml", "writes")
def test_what_reviews_would_not_show_is_left_out(case):
    events = []
    for replicas, version, *rest in case["writes"]:
        generation, more = (*rest, {})[:2] if rest else (1, {})
        if "stored" in more:
            more["stored"] = deployment(1, version) | more["stored"]
        events.append(write(replicas, version, generation, **more))
    assert reviewed(*events) == ([], None), case.because


@table("audit/refused.yaml", "code", "status", "decision", "refused")
def test_a_content_is_refused_by_some_codes(case):
    answer = {
        "verb": "update",
        "annotations": {"authorization.k8s.io/decision": case.get("decision", "allow")},
        "responseStatus": {"code": case["code"], **case.get("status", {})},
    }
    assert msgspec.convert(answer, Event).is_refused is case["refused"], case.because


def test_a_scale_shows_the_replicas_of_its_object():
    scale = {
        "kind": "Scale", "apiVersion": "autoscaling/v1", "spec": {"replicas": 4},
        "metadata": {"name": "web", "namespace": "default", "uid": "u-1", "resourceVersion": "8"},
    }  # fmt: skip
    scaled = write(4, 8, subresource="scale", stored=scale)
    phases, request = reviewed(write(1, 7), scaled)
    assert phases == PHASES
    assert replicas(request.old_object) == 1
    phases, request = reviewed(write(1, 7), scaled, write(2, 9, 3))
    assert phases == PHASES
    assert request.old_object.metadata.generation == 2
    assert replicas(request.old_object) == 4


def test_a_deleted_collection_is_a_deletion_of_each():
    items = [
        {"metadata": {"name": name, "uid": f"u-{name}", "resourceVersion": "7"}, "spec": {}}
        for name in "ab"
    ]
    listed = {"kind": "DeploymentList", "apiVersion": "apps/v1", "metadata": {}, "items": items}
    phases, request = reviewed(write(1, 8, verb="deletecollection", name="", stored=listed))
    assert phases == ["outcome", "outcome"]
    assert (request.wire.name, request.wire.kind.kind) == ("b", "Deployment")

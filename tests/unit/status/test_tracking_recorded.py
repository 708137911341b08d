"""What real control planes did, as tracking sees it: every recorded scenario, review by review."""

import msgspec
import pytest

from genguard.admission.decode import decode_review
from genguard.admission.review import AdmissionRequest, Operation, Phase
from genguard.objects.fields import fields_of
from genguard.objects.metadata import at_version
from genguard.status.evaluate import GRACE_SECONDS, evaluate
from genguard.status.tracked_state import ObjectSnapshot
from genguard.status.tracking import Tracking
from tests.cases_loader import table
from tests.scenarios.recording import read_lines, recorded
from tests.statuses import KEYS, NOW, document_of
from tests.unit.status.story import objects
from tests.unit.status.test_status_cases import FIELDS

NAMES = recorded()


class Line(msgspec.Struct):
    phase: Phase
    review: msgspec.Raw


def play(name: str) -> Tracking:
    """What each write of a recording stored, a second apart, and quiet at the end."""
    tracking, at = Tracking(), 0
    for at, line in enumerate(read_lines(name), start=1):
        read = msgspec.json.decode(line, type=Line)
        request = decode_review(bytes(read.review))
        if read.phase is not Phase.OUTCOME or request.wire.dry_run:
            continue
        show(tracking, request, at)
        for found in objects(tracking):
            assert (found.state.reconciled or 0) <= found.state.generation
    tracking.advance(at + GRACE_SECONDS)
    return tracking


def show(tracking: Tracking, request: AdmissionRequest, at: int) -> None:
    """What a watch shows before and after a write; that of a Scale shows no object here."""
    resource, kind = request.wire.resource, request.wire.kind
    if request.operation is Operation.DELETE and request.old_object is not None:
        tracking.forget(request.old_object.metadata.uid or "")
    elif request.object is not None and request.subresource in ("", "status", "resize"):
        created = request.operation is Operation.CREATE
        for half, one in enumerate((request.old_object, request.object)):
            if one is not None:
                found = at_version(one.fields, str(2 * at + half))
                where = resource.group, resource.resource, kind.kind
                tracking.record_stored(*where, found, at + half / 2, created=created)


@pytest.mark.parametrize("name", NAMES)
def test_nothing_that_was_recorded_breaks_its_laws(name):
    for _, counts in play(name).counts_by_kind:
        assert sum(counts.healths.values()) >= len(counts.behind_since)


@pytest.mark.parametrize("name", ["rollouts", "rollback-and-again", "well-behaved-webhooks"])
def test_after_healthy_rollouts_every_deployment_is_settled_and_was_measured(name):
    tracking = play(name)
    deployments = [one for one in objects(tracking) if one.kind.resource == "deployments"]
    assert deployments
    for one in deployments:
        assert (one.state.ready, one.state.settled) == (True, True)
        assert one.state.reconciled == one.state.observed == one.state.generation
    (counts,) = [each for kind, each in tracking.counts_by_kind if kind.resource == "deployments"]
    assert 2 < sum(counts.reconcile.counts) <= sum(counts.observation.counts)
    assert not counts.behind_since


@table("status/kinds", *KEYS, *FIELDS)
def test_what_is_left_out_of_an_object_changes_no_answer(case):
    whole = document_of(case)
    excerpt = ObjectSnapshot(fields_of(whole), whole["kind"])
    assert answer(excerpt.decode()) == answer(whole)


def answer(document):
    view = evaluate(document, at=NOW)
    return (view.ready, view.settled, view.health, view.observed_generation, view.table_ready)

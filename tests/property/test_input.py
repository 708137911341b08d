"""Any bytes at all: an answer, and never an error that nobody drew."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from genguard.admission.decode import UndecodableReviewError, decode_envelope, decode_review
from genguard.admission.review import Phase
from genguard.audit.event import FAULT
from genguard.objects.shown import json_line
from genguard.replay import Replay, as_row
from genguard.review import review
from genguard.review_setup import ReviewOptions
from tests.contract_of_answers import violations
from tests.property.test_patches import everything
from tests.property.writes import mutated, replaced

BODIES = st.binary(max_size=200) | mutated() | replaced()


@given(BODIES)
def test_decoding_raises_nothing_outside_its_tree(body):
    try:
        decode_review(body)
    except UndecodableReviewError as error:
        assert error.status == 400
        assert error.reason
    except RecursionError:
        pytest.fail("the example is not deep")


@given(BODIES)
def test_decoding_an_envelope_raises_nothing_outside_its_tree(body):
    try:
        envelope = decode_envelope(body)
    except UndecodableReviewError:
        return
    assert envelope.request.uid


@given(BODIES, st.sampled_from(Phase))
def test_every_body_is_answered_with_200_or_400(body, phase):
    reply = review(body, phase, everything(), 0.0)
    answer = json.loads(reply.body)
    assert reply.status in (200, 400)
    if reply.status == 400:
        assert answer.keys() == {"error", "field", "message"}
    else:
        assert violations(json.loads(body), answer, phase) == []


@given(st.lists(BODIES.map(lambda body: body.replace(b"\n", b" ")), max_size=4))
def test_every_line_of_a_recording_is_a_review_or_an_error(bodies):
    run = Replay(ReviewOptions())
    phase = b'{"time":"2026-01-01T00:00:00Z","phase":"mutate","review":%b}'
    lines = [*bodies, *[phase % body for body in bodies]]
    found = [*run.lines(lines, "-"), run.summary()]
    assert {line["type"] for line in found} <= {"review", "error", "summary"}
    assert not [line for line in found if FAULT in line.get("message", "")]
    for line in found:
        json.loads(json_line(line))
        assert len(as_row(line).splitlines()) <= 1

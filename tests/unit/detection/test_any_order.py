"""Property: reviews may come in any order and any number of times."""

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from genguard.admission.review import Phase
from genguard.detection.detection import Detection
from genguard.detection.finding import Severity
from tests.scenarios import recording
from tests.unit.detection.builders import reviewed, see

_NAMES = ("fields-dropped-by-an-old-struct", "replicas-pinned", "generated-names")
_LINES = [json.loads(line) for name in _NAMES for line in recording.read_lines(name)[:60]]
_REVIEWS = [
    (Phase(one["phase"]), reviewed(one["review"], Phase(one["phase"])))
    for one in _LINES
    if one["review"]["request"]["operation"] != "CREATE"
]


@given(st.lists(st.tuples(st.sampled_from(_REVIEWS), st.floats(0, 30)), max_size=150))
@settings(max_examples=60)
def test_any_order_and_duplication_is_taken(sequence):
    detection = Detection()
    now = 0.0
    for (phase, one), step in sequence:
        now += step
        see(detection, phase, one, now)
    detection.finish(now)
    assert not detection.unreadable
    assert {finding.severity for finding in detection.findings()} <= set(Severity)

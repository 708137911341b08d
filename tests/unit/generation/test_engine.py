"""Where the status of a kind is written, as rules have to know."""

import json

from genguard.admission.decode import decode_review
from genguard.generation import (
    Cause,
    CustomResource,
    CustomResources,
    Prediction,
    StatusSubresource,
)
from genguard.generation.table import load_table
from genguard.generation.transition import Engine
from tests.cases_loader import table
from tests.reviews import make_review

PRESENT, ABSENT, UNKNOWN = StatusSubresource
KNOWN = CustomResource("example.org", "v1", "widgets", "Widget", ABSENT)


def test_a_deletion_whose_options_are_left_out_has_none():
    asked = make_review("DELETE", "deployments", None, {"metadata": {"generation": 3}})
    del asked["request"]["options"]
    request = decode_review(json.dumps(asked).encode())
    found = Engine(load_table(), CustomResources()).predict(request)
    assert found == Prediction(3, 0, Cause.REMOVED_AT_ONCE)


@table("objects/status_written.yaml", "resource", "status")
def test_status_is_written_to_a_subresource_or_beside_the_spec(case):
    engine = Engine(load_table(), CustomResources([KNOWN]))
    request = decode_review(json.dumps(make_review("CREATE", case["resource"], {})).encode())
    strategy, found = engine.strategy(request)
    assert found is StatusSubresource(case["status"]), case.because
    assert strategy.resource == case["resource"]

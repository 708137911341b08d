"""Where the status of a kind is written, as rules have to know."""

import json

import pytest

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
from tests.reviews import make_review

PRESENT, ABSENT, UNKNOWN = StatusSubresource
KNOWN = CustomResource("example.org", "v1", "widgets", "Widget", ABSENT)


def test_a_deletion_whose_options_are_left_out_has_none():
    asked = make_review("DELETE", "deployments", None, {"metadata": {"generation": 3}})
    del asked["request"]["options"]
    request = decode_review(json.dumps(asked).encode())
    found = Engine(load_table(), CustomResources()).predict(request)
    assert found == Prediction(3, 0, Cause.REMOVED_AT_ONCE)


@pytest.mark.parametrize(
    ("resource", "status", "because"),
    [
        ("deployments", PRESENT, "the table lists its status"),
        ("configmaps", ABSENT, "the table lists none"),
        ("widgets", ABSENT, "its definition says so"),
        ("gadgets", UNKNOWN, "nobody has said"),
    ],
)
def test_status_is_written_to_a_subresource_or_beside_the_spec(resource, status, because):
    engine = Engine(load_table(), CustomResources([KNOWN]))
    request = decode_review(json.dumps(make_review("CREATE", resource, {})).encode())
    strategy, found = engine.strategy(request)
    assert found is status, because
    assert strategy.resource == resource

"""Which writes the server takes a status from."""

import json

import pytest

from genguard.admission.decode import decode_review
from genguard.generation import StatusSubresource
from genguard.rules.rule import is_status_write
from tests.reviews import make_review

PRESENT, ABSENT, UNKNOWN = StatusSubresource
SENT = {"status": {"a": 1}}


@pytest.mark.parametrize(
    ("write", "new", "status", "taken", "because"),
    [
        ("UPDATE status", SENT, PRESENT, True, "it is what the subresource is for"),
        ("UPDATE status", {}, UNKNOWN, True, "the subresource proves itself"),
        ("UPDATE scale", SENT, ABSENT, False, "another subresource takes none"),
        ("UPDATE", SENT, PRESENT, False, "a stale copy, which the server throws away"),
        ("UPDATE", {}, ABSENT, True, "status is a field like others, and may be dropped"),
        ("UPDATE", SENT, UNKNOWN, True, "a status that was sent counts as written"),
        ("UPDATE", {}, UNKNOWN, False, "nobody spoke of status"),
        ("CREATE", SENT, ABSENT, False, "nothing was stored that could be lost"),
        ("DELETE", SENT, ABSENT, False, "nothing is written"),
    ],
)
def test_a_status_is_written_where_the_server_takes_it(write, new, status, taken, because):
    operation, _, subresource = write.partition(" ")
    asked = make_review(operation, "widgets", new, {}, subresource=subresource)
    request = decode_review(json.dumps(asked).encode())
    assert is_status_write(request, status) is taken, because

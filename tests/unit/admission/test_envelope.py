"""The envelope of a review that is nested too deep to decode."""

import json
import time

import pytest

from genguard.admission.decode import (
    InvalidFieldError,
    NotJSONError,
    UndecodableReviewError,
    UnsupportedVersionError,
    decode_envelope,
)
from tests.cases_loader import table
from tests.reviews import make_review


def deep(levels: int, **changes: str) -> bytes:
    """A review whose object is nested `levels` deep."""
    asked = make_review(new={"spec": "HERE"}, old={})
    asked["request"]["uid"] = "the-uid"
    inside = b"[" * (levels - 1) + b"]" * (levels - 1)
    body = json.dumps({**asked, **changes}).encode()
    return body.replace(b'"HERE"', inside)


@pytest.mark.parametrize(
    "strange", [b'{"uid": "not-this", "apiVersion": "nor-this"}', rb'"}]}{[\"uid\": \\"']
)
def test_the_uid_and_version_are_found_at_their_depth_alone(strange):
    envelope = decode_envelope(deep(9_000).replace(b'"thing"', strange))
    assert (envelope.api_version, envelope.request.uid) == ("admission.k8s.io/v1", "the-uid")


@table("admission/no_answer.yaml", "body", "field")
def test_without_version_or_uid_there_is_no_answer(case):
    with pytest.raises(InvalidFieldError) as raised:
        decode_envelope(case["body"].encode())
    assert raised.value.field == case["field"], case.because


def test_another_version_is_refused_and_not_quoted():
    with pytest.raises(UnsupportedVersionError) as raised:
        decode_envelope(deep(2_000, apiVersion="canary-7f3a/v1"))
    assert "canary" not in str(raised.value)


@pytest.mark.parametrize("body", [b"{", b'{"a":[}', b"}}", b'{"a": "b', b'{"a": "b\\'])
def test_what_does_not_end_is_no_json(body):
    with pytest.raises(NotJSONError):
        decode_envelope(body)


HOSTILE = {
    "a string of quotes that never ends": b'{"a":"' + b'\\"' * 3_000_000,
    "quotes": b'{"a":' + b'""' * 3_000_000,
    "brackets in pairs": b'{"a":[' + b"[]," * 2_000_000,
}


@pytest.mark.slow
@pytest.mark.parametrize("body", HOSTILE.values(), ids=HOSTILE)
def test_twice_as_much_of_anything_takes_no_more_than_twice_as_long(body):
    """What would be looked at again and again takes four times as long, each time it is tried."""
    half = body[: len(body) // 2]
    assert any(seconds(body) < 3 * seconds(half) for _ in range(20))


def seconds(body: bytes) -> float:
    begun = time.process_time()
    with pytest.raises(UndecodableReviewError):
        decode_envelope(body)
    return time.process_time() - begun

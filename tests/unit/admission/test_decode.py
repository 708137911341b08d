"""What is refused as no AdmissionReview, with the field named and no value quoted."""

import json
from typing import Any

import msgspec
import pytest

from genguard.admission.decode import (
    HEAD_BYTES,
    MOST_FIELDS,
    InvalidFieldError,
    NotJSONError,
    UndecodableReviewError,
    UnsupportedVersionError,
    decode_review,
    name_in_head,
)
from genguard.admission.review import ObjectName
from tests.cases_loader import table
from tests.reviews import make_review

CANARY = "canary-7f3a"
GONE = object()


def changed(path: str, value: Any) -> bytes:
    """A good review with one place changed, or gone."""
    asked = make_review(new={"spec": {}}, old={"spec": {}})
    *parents, last = path.split(".")
    target: Any = asked
    for key in parents:
        target = target[key]
    if value is GONE:
        del target[last]
    else:
        target[last] = value
    return json.dumps(asked).encode()


@table("admission_fields.yaml", "path", "value", "field", "told")
def test_a_wrong_field_is_named_with_its_path_and_never_quoted(case):
    with pytest.raises(InvalidFieldError) as raised:
        decode_review(changed(case["path"], case.get("value", GONE)))
    assert raised.value.field == case.get("field", case["path"]), case.because
    assert case["told"] in raised.value.reason
    assert CANARY not in str(raised.value)
    assert raised.value.status == 400


@pytest.mark.parametrize(
    ("path", "value", "field"),
    [
        ("apiVersion", "admission.k8s.io/v2", "apiVersion"),
        ("apiVersion", CANARY, "apiVersion"),
        ("kind", "Review", "kind"),
        ("kind", CANARY, "kind"),
    ],
)
def test_another_document_is_refused_without_being_quoted(path, value, field):
    with pytest.raises(UnsupportedVersionError, match="expected kind AdmissionReview") as raised:
        decode_review(changed(path, value))
    assert raised.value.field == field
    assert CANARY not in str(raised.value)


GOOD = json.dumps(make_review(new={}, old={})).encode()
NOT_JSON = {
    "empty": b"",
    "blank": b"  \n",
    "text": b"canary-7f3a",
    "truncated": GOOD[:-20],
    "two documents": GOOD + GOOD,
    "trailing bytes": GOOD + b"x",
    "byte order mark": b"\xef\xbb\xbf" + GOOD,
    "UTF-16": GOOD.decode().encode("utf-16"),
    "invalid UTF-8": GOOD.replace(b"thing", b"th\xffing"),
    "invalid UTF-8 inside the object": changed("request.object.spec", {"a": "X"}).replace(
        b'"X"', b'"canary-7f3a \xc3\x28"'
    ),
    "NaN": changed("request.object.spec", float("nan")),
    "Infinity": changed("request.object.spec", float("inf")),
    "a control character": changed("request.object.spec", "X").replace(b'"X"', b'"a\nb"'),
    "a lone surrogate": GOOD.replace(b"thing", b"\\ud800"),
    "a lone surrogate in the metadata": GOOD.replace(b"object-1", b"\\ud800"),
    "a comment": b"// canary-7f3a\n" + GOOD,
    "an unquoted key": b"{apiVersion: canary-7f3a}",
}


@pytest.mark.parametrize("body", NOT_JSON.values(), ids=NOT_JSON)
def test_what_is_not_one_json_document_is_refused_without_being_quoted(body):
    with pytest.raises(NotJSONError) as raised:
        decode_review(body)
    assert CANARY not in str(raised.value)


@pytest.mark.parametrize("body", [b"null", b"[]", b"5", b'"canary-7f3a"', b"true"])
def test_json_that_is_no_object_is_refused(body):
    with pytest.raises(UndecodableReviewError) as raised:
        decode_review(body)
    assert CANARY not in str(raised.value)


def test_operations_without_objects_need_none():
    for operation in ("DELETE", "CONNECT"):
        assert decode_review(json.dumps(make_review(operation)).encode()).object is None
    asked = make_review("CONNECT", new={"command": ["ls"]})
    del asked["request"]["object"]["metadata"]
    assert decode_review(json.dumps(asked).encode()).object is not None


def test_fields_that_nobody_knows_are_read_past():
    asked = changed("request.newField", {"deep": [1]})
    assert decode_review(asked).wire.name == "thing"


def test_of_duplicate_keys_the_last_wins_as_in_the_api_server():
    body = GOOD.replace(b'"uid": "uid', b'"uid": "first", "uid": "uid', 1)
    assert decode_review(body).wire.uid.startswith("uid-")


@pytest.mark.parametrize("side", ["object", "oldObject"])
def test_fields_beyond_all_measure_are_not_read(side):
    """Found they take a hundred bytes each, and are kept as long as the review is."""
    asked = make_review(new={"spec": {}}, old={"spec": {}})
    asked["request"][side] |= {str(number): 0 for number in range(MOST_FIELDS - 4)}
    assert len(asked["request"][side]) == MOST_FIELDS
    found = decode_review(json.dumps(asked).encode())
    assert found.object is not None
    assert "spec" in found.object.fields
    asked["request"][side]["more"] = 0
    found = decode_review(json.dumps(asked).encode())
    for one in (found.object, found.old_object):
        assert one is not None
        with pytest.raises(msgspec.ValidationError, match="top-level fields"):
            _ = one.fields


NAMED = make_review("UPDATE", "deployments", {"spec": {}}, {"spec": {}}, name="web")
WEB = ObjectName("apps", "deployments", "default", "web")


def test_the_name_is_read_from_what_has_come_of_a_body_or_is_not_known():
    body = json.dumps(NAMED).encode()
    found = [name_in_head(body[:end]) for end in range(len(body) + 1)]
    known = body.index(b'"userInfo"') + len(b'"userInfo":')
    assert found == [None] * known + [WEB] * (len(body) + 1 - known)
    assert name_in_head(json.dumps(NAMED, separators=(",", ":")).encode() + b"x" * 10) == WEB


@pytest.mark.parametrize(
    ("first", "because"),
    [
        ({"object": {"name": "other", "userInfo": {}, "object": {}}}, "an object comes first"),
        ({"uid": "u" * HEAD_BYTES}, "names come too late"),
        ({"name": 7}, "it is no name"),
        ({"resource": ["pods"]}, "it is no resource"),
    ],
)
def test_a_name_that_is_not_where_an_api_server_has_it_is_not_known(first, because):
    asked = {**first, **{key: one for key, one in NAMED["request"].items() if key not in first}}
    assert name_in_head(json.dumps({"request": asked}).encode()) is None, because

"""Bodies that no well-behaved API server sends; each holds a canary where an object could be."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.reviews import make_review

CANARY = "canary-7f3a"
"""Stands for what an object holds: it may never show in a log or in a refusal."""

ALLOWED = "allowed"


@dataclass(frozen=True, slots=True)
class Hostile:
    """A body, and the error code of its 400, or `allowed` for a 200."""

    name: str
    code: str
    make: Callable[[], bytes]


def review_text(**replaced: str) -> str:
    """A status write full of canaries; each `NAME=text` replaces the string "NAME" in it."""
    asked = make_review(
        new={"spec": {"secret": CANARY, "here": "SPEC"}, "status": {"here": "STATUS"}},
        old={"spec": {"secret": CANARY}, "status": {"observedGeneration": 3, "message": CANARY}},
        subresource="status",
    )
    text = json.dumps(asked)
    for name, value in replaced.items():
        text = text.replace(f'"{name}"', value)
    return text


def with_change(change: Callable[[dict[str, Any]], None]) -> bytes:
    asked = json.loads(review_text())
    change(asked["request"])
    return json.dumps(asked).encode()


def _drop(name: str) -> bytes:
    return with_change(lambda request: request.pop(name))


def _put(value: Any, *path: str) -> bytes:
    def change(request: dict[str, Any]) -> None:
        target = request
        for key in path[:-1]:
            target = target[key]
        target[path[-1]] = value

    return with_change(change)


def _nested(levels: int, place: str = "STATUS") -> bytes:
    return review_text(**{place: "[" * levels + "]" * levels}).encode()


def _big(size: int) -> bytes:
    text = review_text()
    return review_text(SPEC='"' + "x" * (size - len(text)) + '"').encode()


GOOD = review_text()
QUOTES = b'"' + b'\\"' * 3_000_000
HOSTILE = [
    Hostile("empty body", "not_json", lambda: b""),
    Hostile("blank body", "not_json", lambda: b" \r\n "),
    Hostile("not JSON", "not_json", lambda: b"secret: " + CANARY.encode()),
    Hostile("truncated", "not_json", lambda: GOOD[:-30].encode()),
    Hostile("truncated inside a string", "not_json", lambda: GOOD[:900].encode()),
    Hostile("two documents", "not_json", lambda: (GOOD + GOOD).encode()),
    Hostile("two lines", "not_json", lambda: f"{GOOD}\n{GOOD}".encode()),
    Hostile("trailing bytes", "not_json", lambda: GOOD.encode() + b"\x00"),
    Hostile("byte order mark", "not_json", lambda: b"\xef\xbb\xbf" + GOOD.encode()),
    Hostile("UTF-16", "not_json", lambda: GOOD.encode("utf-16")),
    Hostile(
        "invalid UTF-8", "not_json", lambda: GOOD.replace("SPEC", "\xff").encode("latin-1")
    ),
    Hostile("control character", "not_json", lambda: review_text(SPEC='"\x01"').encode()),
    Hostile("NaN", "not_json", lambda: review_text(SPEC="NaN").encode()),
    Hostile("Infinity", "not_json", lambda: review_text(SPEC="-Infinity").encode()),
    Hostile("1e999", ALLOWED, lambda: review_text(STATUS="1e999").encode()),
    Hostile("5,000 digits", ALLOWED, lambda: review_text(SPEC="7" * 5_000).encode()),
    Hostile("null", "invalid_field", lambda: b"null"),
    Hostile("array", "invalid_field", lambda: f'["{CANARY}"]'.encode()),
    Hostile("empty object", "invalid_field", lambda: b"{}"),
    Hostile(
        "wrong apiVersion", "unsupported_version",
        lambda: GOOD.replace("admission.k8s.io/v1", f"{CANARY}/v1").encode(),
    ),
    Hostile(
        "wrong kind", "unsupported_version",
        lambda: GOOD.replace("AdmissionReview", CANARY).encode(),
    ),
    Hostile(
        "request missing", "invalid_field",
        lambda: GOOD.replace('"request"', f'"{CANARY}"').encode(),
    ),
    Hostile("uid missing", "invalid_field", lambda: _drop("uid")),
    Hostile("uid empty", "invalid_field", lambda: _put("", "uid")),
    Hostile("unknown operation", "invalid_field", lambda: _put(CANARY, "operation")),
    Hostile("object null on UPDATE", "invalid_field", lambda: _put(None, "object")),
    Hostile("oldObject absent on UPDATE", "invalid_field", lambda: _drop("oldObject")),
    Hostile("object a string", "invalid_field", lambda: _put(CANARY, "object")),
    Hostile("metadata missing", "invalid_field",
            lambda: with_change(lambda request: request["object"].pop("metadata"))),
    Hostile("metadata a string", "invalid_field", lambda: _put(CANARY, "object", "metadata")),
    Hostile("generation a string", "invalid_field",
            lambda: _put(CANARY, "object", "metadata", "generation")),
    Hostile("generation 2^63", "invalid_field",
            lambda: _put(2**63, "object", "metadata", "generation")),
    Hostile("generation negative", ALLOWED,
            lambda: _put(-5, "oldObject", "metadata", "generation")),
    Hostile("generation 2^63-1", ALLOWED,
            lambda: _put(2**63 - 1, "oldObject", "metadata", "generation")),
    Hostile("status a string", ALLOWED, lambda: _put(CANARY, "object", "status")),
    Hostile("status a number", ALLOWED, lambda: _put(5, "oldObject", "status")),
    Hostile("conditions no list", ALLOWED,
            lambda: _put({"a": CANARY}, "object", "status", "conditions")),
    Hostile("conditions of text", ALLOWED,
            lambda: _put([CANARY], "oldObject", "status", "conditions")),
    Hostile("observedGeneration of text", ALLOWED,
            lambda: _put(CANARY, "oldObject", "status", "observedGeneration")),
    Hostile("observedGeneration 2^70", ALLOWED,
            lambda: _put(2**70, "oldObject", "status", "observedGeneration")),
    Hostile("generateName without name", ALLOWED,
            lambda: _put({"generateName": CANARY}, "object", "metadata")),
    Hostile("names beyond all measure", ALLOWED, lambda: _put("n" * 1_000_000, "name")),
    Hostile("duplicate keys", ALLOWED, lambda: review_text(SPEC='{"a":1,"a":2}').encode()),
    Hostile(
        "duplicate uids", ALLOWED,
        lambda: GOOD.replace('"request": {', '"request": {"uid": "first", ', 1).encode(),
    ),
    Hostile("nested 900", ALLOWED, lambda: _nested(900)),
    Hostile("nested 1,000", ALLOWED, lambda: _nested(1_000)),
    Hostile("nested 1,000 in spec", ALLOWED, lambda: _nested(1_000, "SPEC")),
    Hostile("nested 9,000", ALLOWED, lambda: _nested(9_000)),
    Hostile("nested 100,000", ALLOWED, lambda: _nested(100_000)),
    Hostile("opened 1,000,000 times", "invalid_field",
            lambda: review_text(STATUS="[" * 1_000_000).encode()),
    Hostile("deep, then a string of quotes that never ends", "not_json",
            lambda: GOOD.partition('"STATUS"')[0].encode() + b"[" * 2_000 + QUOTES),
    Hostile("6.9 MiB", ALLOWED, lambda: _big(6_900 * 1024)),
    Hostile("200,000 conditions", ALLOWED,
            lambda: review_text(STATUS='0, "conditions": [' + "{}," * 200_000 + "{}]").encode()),
]  # fmt: skip

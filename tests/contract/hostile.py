"""Bodies that no well-behaved API server sends; each holds a canary where an object could be."""

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from tests.cases_loader import Case, load
from tests.reviews import make_review

CANARY = "canary-7f3a"
"""Stands for what an object holds: it may never show in a log or in a refusal."""

ALLOWED = "allowed"


class Hostile(NamedTuple):
    """A body, and the error code of its 400, or `allowed` for a 200."""

    name: str
    code: str
    body: bytes


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


GOOD = review_text()


def _spoilt(case: Case) -> bytes:
    """The body of a case, as its file says."""
    if case.get("raw") is not None:
        return str(case["raw"]).encode()
    asked = json.loads(GOOD)
    for path, value in case.get("put", {}).items():
        found, key = _at(asked["request"], path)
        found[key] = value
    if "drop" in case.values:
        found, key = _at(asked["request"], case["drop"])
        del found[key]
    text = json.dumps(asked).replace(*case.get("replace", ("", "")), 1)
    replaced = dict(case.get("text", {}))
    for name, (before, piece, count, after) in case.get("times", {}).items():
        replaced[name] = before + piece * count + after
    for name, levels in case.get("nested", {}).items():
        replaced[name] = "[" * levels + "]" * levels
    for name, value in replaced.items():
        text = text.replace(f'"{name}"', value)
    return text.encode()


def _at(found: Any, path: str) -> tuple[Any, str]:
    *parents, key = path.split(".")
    for one in parents:
        found = found[one]
    return found, key


def _bytes() -> Iterator[Hostile]:
    """Those that are no text, or cut off."""
    good = GOOD.encode()
    deep = GOOD.partition('"STATUS"')[0].encode() + b"[" * 2_000
    for name, body in {
        "truncated": good[:-30],
        "truncated inside a string": good[:900],
        "two documents": good + good,
        "two lines": good + b"\n" + good,
        "trailing bytes": good + b"\x00",
        "byte order mark": b"\xef\xbb\xbf" + good,
        "UTF-16": GOOD.encode("utf-16"),
        "invalid UTF-8": GOOD.replace("SPEC", "\xff").encode("latin-1"),
        "deep, then a string of quotes that never ends": deep + b'"' + b'\\"' * 3_000_000,
    }.items():
        yield Hostile(name, "not_json", body)


_KEYS = ("code", "raw", "put", "drop", "text", "times", "nested", "replace")
HOSTILE = [
    *(
        Hostile(case.because, case.get("code", ALLOWED), _spoilt(case))
        for case in load("contract/bodies.yaml", *_KEYS)
    ),
    *_bytes(),
]

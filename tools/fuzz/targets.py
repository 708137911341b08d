"""What is fuzzed: each target takes any bytes, and its laws hold or it raises.

A target reads its bytes as a user could bring them: a body, a file, a flag's text, two JSON values
one a line. What its own tree of errors names is an answer; everything else is a fault.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Final

import jsonpatch
import msgspec
import yaml

import certs
from genguard.admission.decode import UndecodableReviewError, decode_envelope, decode_review
from genguard.admission.review import Phase
from genguard.audit.event import FAULT
from genguard.formats.documents import ReadObject, load_document, read_documents
from genguard.linting.lint import lint
from genguard.objects.equality import load_shapes, same_json, same_quantity, same_raw, same_typed
from genguard.objects.fields import fields_of
from genguard.objects.intended import NotRestorableError, parse_restored
from genguard.objects.selectors import Truth, matches_labels
from genguard.objects.shown import json_line
from genguard.patch.operations import Edit, plan_patch
from genguard.replay import Replay, as_row
from genguard.review import review
from genguard.review_setup import GenerationPatch, ReviewOptions
from tests.contract_of_answers import violations
from tests.reviews import make_dependencies
from webhook.server.watching import NotWatchableError, parse_watched
from webhook.store.address import BadStoreError, parse_store

_DEPENDENCIES: Final = make_dependencies(generation_patch=GenerationPatch.ALWAYS)
_CODES: Final = ("", *sorted(load_shapes().types), "Q", "T")
_AT: Final = datetime(2026, 11, 21, tzinfo=UTC)
_JSON: Final = (msgspec.MsgspecError, RecursionError, UnicodeDecodeError)


def values(data: bytes, count: int) -> list[Any] | None:
    """So many JSON values, one a line; None where there are not."""
    try:
        found = [msgspec.json.decode(line) for line in data.split(b"\n")[:count]]
    except _JSON:
        return None
    return found if len(found) == count else None


def decode(data: bytes) -> None:
    """A body becomes a request with a uid, or an error of the drawn tree; so does its envelope."""
    try:
        assert decode_review(data).wire.uid
    except UndecodableReviewError as error:
        assert error.status == 400
        assert "\n" not in error.reason
    except RecursionError:
        pass
    with suppress(UndecodableReviewError):
        assert decode_envelope(data).request.uid


def answer(data: bytes) -> None:
    """Every body gets a 200 that the API server takes, or a 400; the same twice."""
    for phase in Phase:
        reply = review(data, phase, _DEPENDENCIES, 0.0)
        assert reply.status in (200, 400)
        assert review(data, phase, _DEPENDENCIES, 0.0).body == reply.body
        if reply.status == 200:
            try:
                asked = json.loads(data)
            except (ValueError, RecursionError):  # of more digits or depth than Python's own takes
                continue
            assert violations(asked, json.loads(reply.body), phase) == []


def equality(data: bytes) -> None:
    """It is reflexive and symmetric, in raw bytes too; what reflect finds equal is semantic."""
    code = _CODES[data[0] % len(_CODES)] if data else ""
    found = values(data[1:], 2)
    if found is None:
        return
    left, right = found
    try:
        assert same_json(left, left)
        assert same_json(left, right) is same_json(right, left)
        raws = [msgspec.Raw(line) for line in data[1:].split(b"\n")[:2]]
        assert same_raw(*raws) is same_json(left, right)
        for nil in (True, False):
            there = same_typed(code, *raws, nil_is_empty=nil)
            assert there is same_typed(code, *reversed(raws), nil_is_empty=nil)
        if same_json(left, right):
            assert same_typed(code, *raws, nil_is_empty=False)
        if same_typed(code, *raws, nil_is_empty=False):
            assert same_typed(code, *raws, nil_is_empty=True)
    except RecursionError:
        pass  # its callers take it for different


def quantity(data: bytes) -> None:
    """Equality is reflexive and symmetric."""
    left, _, right = data.decode(errors="replace").partition("\n")
    assert same_quantity(left, left)
    assert same_quantity(left, right) is same_quantity(right, left)


def patch(data: bytes) -> None:
    """Operations apply, as another library does it, and come to what was planned."""
    found = values(data, 2)
    if found is None:
        return
    document, wanted = found
    if not isinstance(document, dict) or not isinstance(wanted, list):
        return
    edits = list(_edits(wanted))
    try:
        plan = plan_patch(fields_of(document), edits)
    except _JSON:
        return
    operations = [{"op": one.op, "path": one.path, "value": one.value} for one in plan.operations]
    patched = jsonpatch.apply_patch(json.loads(json.dumps(document)), operations)
    assert len(plan.operations) + len(plan.dropped) <= len(edits)
    for key, value in plan.edited.items():
        again = msgspec.json.decode(msgspec.json.encode(value))
        assert same_json(patched[key], again), key
    assert patched.keys() - document.keys() <= {str(one.path[0]) for one in edits}


def _edits(wanted: list[Any]) -> Iterator[Edit]:
    for one in wanted:
        match one:
            case [[str(first), *path], value] if all(type(step) in (str, int) for step in path):
                yield Edit((first, *path), value)


def replay(data: bytes) -> None:
    """Every line of a recording or an audit log is told as a review, a finding or an error."""
    run = Replay(ReviewOptions())
    lines = data.split(b"\n")
    found = [*run.lines(lines, "-"), run.summary()]
    assert {line["type"] for line in found} <= {"review", "finding", "error", "summary"}
    assert not [line for line in found if FAULT in line.get("message", "")]
    for line in found:
        json.loads(json_line(line))
        assert len(as_row(line).splitlines()) <= 1


class _Requirement(msgspec.Struct):
    key: str = ""
    operator: str = ""
    values: list[str] | None = None


class _Selector(msgspec.Struct, rename="camel"):
    match_labels: dict[str, str] | None = None
    match_expressions: list[_Requirement] | None = None


def selectors(data: bytes) -> None:
    """More knowledge turns no answer round: what is true or false of some labels stays so."""
    found = values(data, 3)
    if found is None:
        return
    try:
        selector = msgspec.to_builtins(msgspec.convert(found[0], _Selector))
        some, others = msgspec.convert(found[1:], list[dict[str, str]])
    except msgspec.ValidationError:
        return
    before = matches_labels(selector, some, complete=False)
    if before is not Truth.UNKNOWN:
        after = matches_labels(selector, {**others, **some}, complete=True)
        assert after in (before, Truth.UNKNOWN)


_FLAGS: Final[tuple[tuple[Callable[[str], object], type[Exception]], ...]] = (
    (parse_store, BadStoreError),
    (parse_restored, NotRestorableError),
    (parse_watched, NotWatchableError),
)


def flags(data: bytes) -> None:
    """A flag's text is read, or refused with one line that says why."""
    text = data.decode(errors="surrogateescape")  # as Python gives a command line
    for parse, refusal in _FLAGS:
        try:
            parse(text)
        except refusal as error:
            assert str(error)


def documents(data: bytes) -> None:
    """Files of objects: each is read or told unreadable; lint examines what can be read."""
    found = [
        one.value
        for one in read_documents(data.splitlines(keepends=True))
        if isinstance(one, ReadObject)
    ]
    lint(found, at=_AT, live=False)


def config(data: bytes) -> None:
    """YAML is a JSON value, or an error of three kinds."""
    with suppress(yaml.YAMLError, ValueError, RecursionError):
        load_document(data)


def certificates(data: bytes) -> None:
    """PEM is looked at and described, and nothing is raised."""
    certs.inspect(data, data, data, at=_AT, names=("localhost",))


TARGETS: Final[dict[str, Callable[[bytes], None]]] = {
    one.__name__: one
    for one in (
        decode, answer, equality, quantity, patch, replay, selectors, flags, documents, config,
        certificates,
    )
}  # fmt: skip

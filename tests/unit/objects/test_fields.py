"""Places in an object, and its parts as they stand on the wire."""

import msgspec
import pytest

from genguard.objects.fields import (
    ABSENT,
    decode_field,
    fields_of,
    from_pointer,
    get,
    to_field_path,
    to_pointer,
)
from genguard.objects.metadata import decode_metadata, version_number
from tests.cases_loader import Case, table


@table("objects/pointers.yaml", "path", "pointer", "read")
def test_a_path_is_a_pointer_on_the_wire_and_has_dots_for_people(case: Case) -> None:
    path, pointer = case["path"], case["pointer"]
    assert to_pointer(path) == pointer, case.because
    assert from_pointer(pointer) == tuple(map(str, path)), case.because
    assert to_field_path(path) == case["read"], case.because


@table("objects/versions.yaml", "text", "number")
def test_what_is_no_number_counts_as_the_oldest_version(case: Case) -> None:
    assert version_number(case["text"]) == case["number"], case.because


def test_a_pointer_that_does_not_begin_at_the_root_is_refused():
    with pytest.raises(ValueError, match="starts with"):
        from_pointer("metadata")


def test_absent_null_and_empty_are_three_values():
    fields = fields_of({"none": None, "empty": {}})
    assert decode_field(fields, "none") is None
    assert decode_field(fields, "empty") == {}
    assert decode_field(fields, "absent") is ABSENT


def test_numbers_keep_their_type():
    fields = fields_of({"a": 1, "b": 1.0})
    assert (bytes(fields["a"]), bytes(fields["b"])) == (b"1", b"1.0")


def test_a_walk_ends_where_there_is_no_object():
    assert get({"a": {"b": 1}}, "a", "b") == 1
    assert get({"a": {"b": 1}}, "a", "b", "c") is ABSENT
    assert get([], "a") is ABSENT


def test_a_generation_may_be_absent_null_or_a_number():
    def generation(metadata):
        return decode_metadata(fields_of({"metadata": metadata}))

    assert generation({}).generation is msgspec.UNSET
    assert generation({"generation": None}).generation is None
    assert generation({"generation": 5}).stored_generation == 5
    assert generation({}).stored_generation == generation({"generation": None}).stored_generation
    with pytest.raises(msgspec.ValidationError):
        generation({"generation": "5"})
    with pytest.raises(KeyError):
        decode_metadata({})

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
from genguard.objects.metadata import decode_metadata


@pytest.mark.parametrize(
    ("path", "pointer"),
    [
        ((), ""),
        (("metadata", "generation"), "/metadata/generation"),
        (("a/b", "c~d"), "/a~1b/c~0d"),
        (("~1",), "/~01"),
        (("",), "/"),
        (("conditions", 0), "/conditions/0"),
    ],
)
def test_pointers_are_those_of_rfc_6901(path, pointer):
    assert to_pointer(path) == pointer
    assert from_pointer(pointer) == tuple(str(token) for token in path)


def test_a_pointer_that_does_not_begin_at_the_root_is_refused():
    with pytest.raises(ValueError, match="starts with"):
        from_pointer("metadata")


def test_people_read_paths_with_dots_and_brackets():
    assert to_field_path(("status", "conditions", 0, "type")) == "status.conditions[0].type"
    assert to_field_path((0, "a")) == "[0].a"


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

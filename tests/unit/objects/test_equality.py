"""Equality of untyped JSON, of typed fields, of quantities and of times: tests/cases/equality."""

from fractions import Fraction

import msgspec
import pytest

from genguard.objects.equality import (
    field_code,
    load_shapes,
    parse_quantity,
    same_json,
    same_quantity,
    same_raw,
    same_typed,
)
from genguard.objects.metadata import parse_time, same_instant
from tests.cases_loader import table

PAIR = ("a", "b", "equal")


def typed_both_ways(case, *, nil_is_empty):
    """What is said of two typed fields in both directions; null is as good as absent."""
    null = msgspec.Raw(b"null")
    sides = [msgspec.Raw(msgspec.json.encode(case[side])) for side in "ab"]
    absent = [None if one == null else one for one in sides]
    return {
        same_typed(case["code"], *pair, nil_is_empty=nil_is_empty)
        for a, b in (sides, absent)
        for pair in ((a, b), (b, a))
    }


@table("equality/json.yaml", *PAIR)
def test_untyped_json_compares_as_maps_of_go_values(case):
    a, b = (msgspec.Raw(case[side].encode()) for side in "ab")
    assert same_raw(a, b) is same_raw(b, a) is case["equal"], case.because
    left, right = msgspec.json.decode(a), msgspec.json.decode(b)
    assert same_json(left, right) is same_json(right, left) is case["equal"]


@table("equality/quantity.yaml", *PAIR)
def test_quantities_compare_by_value(case):
    a, b = case["a"], case["b"]
    assert same_quantity(a, b) is same_quantity(b, a) is case["equal"], case.because


@table("equality/instant.yaml", *PAIR)
def test_times_compare_by_instant(case):
    a, b = case["a"], case["b"]
    assert same_instant(a, b) is same_instant(b, a) is case["equal"], case.because


@table("equality/semantic.yaml", "code", *PAIR)
def test_built_in_fields_compare_as_their_go_types_do(case):
    assert typed_both_ways(case, nil_is_empty=True) == {case["equal"]}, case.because


@table("equality/reflect.yaml", "code", *PAIR)
def test_reflect_tells_nil_from_empty(case):
    assert typed_both_ways(case, nil_is_empty=False) == {case["equal"]}, case.because


@pytest.mark.parametrize("depth", [1_000, 10_000])
def test_depth_costs_no_stack(depth):
    left = right = None
    for _ in range(depth):
        left, right = [left], [right]
    assert same_json(left, right)
    assert not same_json(left, [right])


def test_an_absent_field_is_equal_only_to_an_absent_one():
    assert same_raw(None, None)
    assert not same_raw(None, msgspec.Raw(b"null"))


def test_equal_bytes_are_not_even_decoded():
    assert same_raw(msgspec.Raw(b"no JSON"), msgspec.Raw(b"no JSON"))
    with pytest.raises(msgspec.DecodeError):
        same_raw(msgspec.Raw(b"no JSON"), msgspec.Raw(b"1"))


@table("equality/values.yaml", "text", "value")
def test_a_quantity_has_the_value_that_kubernetes_gives_it(case):
    found = parse_quantity(case["text"])
    assert (found and str(Fraction(found))) == case["value"], case.because


@pytest.mark.parametrize("text", ["", "now", "2026-01-01", "2026-01-01T00:00:00", "24:00Z"])
def test_what_is_no_instant_is_no_time(text):
    assert parse_time(text) is None


def test_every_shape_that_a_shape_names_is_there():
    shapes = load_shapes()
    scalars = {"", "value", "quantity", "time", "raw"}
    codes = {code for fields in shapes.types.values() for code in fields.values()}
    named = {code.translate(str.maketrans("", "", "*[]{}")) for code in codes}
    assert named - scalars <= shapes.types.keys()
    assert set(shapes.roots.values()) <= shapes.types.keys()


def test_a_kind_without_shapes_is_plain_json():
    assert field_code("example.org", "v1", "Widget", "spec") == ""
    assert field_code("apps", "v1", "Deployment", "unknown") == ""
    assert field_code("apps", "v1", "Deployment", "spec") == "apps/v1.DeploymentSpec"

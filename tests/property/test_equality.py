"""Laws of equality: of JSON, of typed fields, of quantities and of instants."""

import copy
import json
from datetime import UTC, datetime, timedelta, timezone
from fractions import Fraction

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from genguard.objects.equality import (
    load_shapes,
    parse_quantity,
    same_json,
    same_quantity,
    same_raw,
    same_typed,
)
from genguard.objects.metadata import same_instant
from tests.property.strategies import JSON

CODES = st.sampled_from(
    ["", "value", "*value", "quantity", "time", "raw", "[]value", "{}value", "{}quantity",
     "[]*value", *sorted(load_shapes().types)[::7]]
)  # fmt: skip
NUMBERS = st.builds(
    lambda sign, whole, fraction: f"{sign}{whole}{fraction}",
    st.sampled_from(["", "+", "-"]),
    st.integers(0, 10**40),
    st.sampled_from(["", ".", ".5", ".000", ".125", "." + "3" * 40]),
)
SUFFIXES = {
    "": Fraction(1), "n": Fraction(1, 10**9), "u": Fraction(1, 10**6), "m": Fraction(1, 1000),
    "k": Fraction(1000), "M": Fraction(10**6), "G": Fraction(10**9), "E": Fraction(10**18),
    "Ki": Fraction(2**10), "Mi": Fraction(2**20), "Ei": Fraction(2**60),
    "e3": Fraction(1000), "E-2": Fraction(1, 100),
}  # fmt: skip
QUANTITIES = st.tuples(NUMBERS, st.sampled_from(sorted(SUFFIXES)))


@given(JSON)
def test_json_is_equal_to_itself_and_to_its_copy_in_any_order(value):
    shuffled = json.loads(json.dumps(value, sort_keys=True))
    assert same_json(value, copy.deepcopy(value))
    assert same_json(value, shuffled)


@given(JSON, JSON)
def test_json_is_equal_exactly_when_it_is_written_alike(a, b):
    assert same_json(a, b) is same_json(b, a)
    written = [json.dumps(one, sort_keys=True).replace("-0.0", "0.0") for one in (a, b)]
    assert same_json(a, b) is (written[0] == written[1])


@given(JSON, JSON)
def test_undecoded_values_compare_as_decoded_ones(a, b):
    raws = [msgspec.Raw(msgspec.json.encode(one)) for one in (a, b)]
    assert same_raw(*raws) is same_json(*(msgspec.json.decode(raw) for raw in raws))


def raw(value):
    return msgspec.Raw(msgspec.json.encode(value))


@given(CODES, JSON, st.booleans())
def test_a_field_of_any_type_is_equal_to_itself_in_any_layout(code, value, nil_is_empty):
    indented = msgspec.Raw(msgspec.json.format(msgspec.json.encode(value), indent=1))
    assert same_typed(code, raw(value), indented, nil_is_empty=nil_is_empty)


def values_of(code: str, depth: int = 4) -> st.SearchStrategy:
    """Values of a Go type, few and small, so that two of them often agree in part."""
    if code.startswith("*"):
        return st.none() | values_of(code[1:], depth)
    if code.startswith("[]"):
        return st.none() | st.lists(values_of(code[2:], depth - 1), max_size=2)
    if code.startswith("{}"):
        names = st.sampled_from(["a", "b"])
        return st.none() | st.dictionaries(names, values_of(code[2:], depth - 1), max_size=2)
    fields = load_shapes().types.get(code)
    if fields is None or not depth:
        return st.sampled_from([None, 0, 1, "", "1", False])
    some = dict(list(fields.items())[:3])
    return st.fixed_dictionaries(
        {}, optional={name: values_of(of, depth - 1) for name, of in some.items()}
    )


TYPES = [
    "*value",
    "[]*value",
    "{}quantity",
    *(name for name in load_shapes().types if name.endswith((".DeploymentSpec", ".PodSpec"))),
]


@given(st.data(), CODES | st.sampled_from(TYPES))
def test_fields_of_any_type_compare_both_ways_alike(data, code):
    a, b = (raw(data.draw(JSON | values_of(code))) for _ in range(2))
    semantic, reflect = (
        {same_typed(code, *pair, nil_is_empty=nil_is_empty) for pair in ((a, b), (b, a))}
        for nil_is_empty in (True, False)
    )
    assert len(semantic) == len(reflect) == 1
    assert reflect <= {False} | semantic, "nil is empty only makes more equal"


@given(QUANTITIES)
def test_a_quantity_is_its_number_times_its_suffix_exactly(quantity):
    number, suffix = quantity
    found = parse_quantity(number + suffix)
    assert found is not None
    assert Fraction(found) == Fraction(number.removesuffix(".")) * SUFFIXES[suffix]


@given(QUANTITIES, QUANTITIES)
def test_quantities_are_equal_exactly_when_their_values_are(one, other):
    a, b = "".join(one), "".join(other)
    assert same_quantity(a, a)
    assert same_quantity(a, b) is same_quantity(b, a)
    values = [Fraction(n.removesuffix(".")) * SUFFIXES[s] for n, s in (one, other)]
    assert same_quantity(a, b) is (values[0] == values[1])


@given(st.integers(0, 10**15))
def test_the_same_amount_in_other_units_is_the_same_amount(amount):
    assert same_quantity(f"{amount}", f"{amount * 1000}m")
    assert same_quantity(f"{amount}Gi", f"{amount * 1024}Mi")
    assert same_quantity(amount, f"{amount}")
    assert not same_quantity(f"{amount}", f"{amount}1n")


@given(st.text() | JSON, st.text() | JSON)
def test_what_is_no_quantity_or_time_compares_without_an_error(a, b):
    for same in (same_quantity, same_instant):
        assert same(a, a)
        assert same(a, b) is same(b, a)


MOMENTS = st.datetimes(datetime(2, 1, 1), datetime(9998, 1, 1)).map(
    lambda moment: moment.replace(tzinfo=UTC)
)
ZONES = st.integers(-14 * 60, 14 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))


@given(MOMENTS, ZONES, ZONES)
def test_an_instant_is_the_same_in_every_zone(moment, here, there):
    texts = [moment.astimezone(zone).isoformat() for zone in (here, there)]
    assert same_instant(*texts)
    later = (moment + timedelta(microseconds=1)).astimezone(there).isoformat()
    assert not same_instant(texts[0], later)

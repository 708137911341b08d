"""Names sort where they must, at the limit of length too, and say so when nothing does."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from genguard.trace.plan import LONGEST, between, is_valid


@pytest.mark.parametrize(
    ("after", "before", "expected"),
    [
        ("istio", None, "istio-genguard-trace-id"),
        ("istio", "istiod", "istio-genguard-trace-id"),
        ("istio", "istio-a", "istio--genguard-trace-id"),
        ("istio", "istio-genguard-trace-id", "istio--genguard-trace-id"),
        ("istio", "istio--0", "istio---genguard-trace-id"),
        ("istio", "istio.io", "istio-genguard-trace-id"),
        ("istio", "istio0", "istio-genguard-trace-id"),
        ("", "0", None),
        ("", "0--genguard-intent", "0---genguard-trace-id"),
        ("", "a", "0-genguard-trace-id"),
        ("", None, "0-genguard-trace-id"),
        ("z" * LONGEST, None, None),
        ("a" * LONGEST, "a" * (LONGEST - 1) + "b", None),
        ("a" * (LONGEST - 2), None, "a" * (LONGEST - 2) + "-0"),
        ("a" * (LONGEST - 1), None, "a" * (LONGEST - 1) + "0"),
        ("a" * LONGEST, None, "a" * (LONGEST - 1) + "b"),
    ],
)
def test_the_nearest_telling_name_there_is(after, before, expected):
    assert between(after, before, "id") == expected


_NAMES = st.from_regex(r"[ab0z]([-ab0z]{0,4}[ab0z])?(\.[ab0z])?", fullmatch=True)
_STEMS = st.sampled_from([0, LONGEST - 6, LONGEST - 3])


@given(_NAMES, _NAMES, _STEMS)
def test_what_is_found_is_valid_and_in_between(one, other, length):
    first, second = sorted(("a" * length + name)[:LONGEST].rstrip("-.") for name in (one, other))
    found = between(first, second, "id")
    if found is not None:
        assert is_valid(found)
        assert first.encode() < found.encode() < second.encode()
    elif first != second and max(len(first), len(second)) < LONGEST - 30:
        raise AssertionError((first, second))


@pytest.mark.parametrize("name", ["", "-a", "a-", "A", "a..b", "a_b", "a" * (LONGEST + 1)])
def test_what_the_api_server_refuses_is_not_valid(name):
    assert not is_valid(name)

"""Merge patches: RFC 7386's own examples, and that a patch that was made leads where it should."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from genguard.objects.equality import same_json
from genguard.patch.merge import merge_patch, merge_patch_between

EXAMPLES = (
    ('{"a":"b"}', '{"a":"c"}', '{"a":"c"}'),
    ('{"a":"b"}', '{"b":"c"}', '{"a":"b","b":"c"}'),
    ('{"a":"b"}', '{"a":null}', "{}"),
    ('{"a":"b","b":"c"}', '{"a":null}', '{"b":"c"}'),
    ('{"a":["b"]}', '{"a":"c"}', '{"a":"c"}'),
    ('{"a":"c"}', '{"a":["b"]}', '{"a":["b"]}'),
    ('{"a":{"b":"c"}}', '{"a":{"b":"d","c":null}}', '{"a":{"b":"d"}}'),
    ('{"a":[{"b":"c"}]}', '{"a":[1]}', '{"a":[1]}'),
    ('["a","b"]', '["c","d"]', '["c","d"]'),
    ('{"a":"b"}', '["c"]', '["c"]'),
    ('{"a":"foo"}', "null", "null"),
    ('{"a":"foo"}', '"bar"', '"bar"'),
    ('{"e":null}', '{"a":1}', '{"e":null,"a":1}'),
    ("[1,2]", '{"a":"b","c":null}', '{"a":"b"}'),
    ("{}", '{"a":{"bb":{"ccc":null}}}', '{"a":{"bb":{}}}'),
)
"""The test cases of appendix A."""
NAMES = st.sampled_from("abc")
DOCUMENTS = st.dictionaries(
    NAMES,
    st.recursive(
        st.booleans() | st.integers(0, 2) | st.text("x", max_size=1),
        lambda inner: st.dictionaries(NAMES, inner, max_size=3) | st.lists(inner, max_size=2),
        max_leaves=6,
    ),
    max_size=3,
)
"""Objects without null, which a merge patch cannot set."""


@pytest.mark.parametrize(("document", "patch", "result"), EXAMPLES)
def test_a_patch_does_what_the_rfc_says(document: str, patch: str, result: str) -> None:
    parsed = json.loads(document)
    assert merge_patch(parsed, json.loads(patch)) == json.loads(result)
    assert parsed == json.loads(document), "it stays as it is"


@given(DOCUMENTS, DOCUMENTS)
def test_a_patch_between_two_objects_makes_one_of_the_other(before: object, after: object) -> None:
    patch = merge_patch_between(before, after)  # type: ignore[arg-type]
    assert same_json(merge_patch(before, patch), after)
    assert (patch == {}) == same_json(before, after)

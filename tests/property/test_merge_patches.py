"""Merge patches: RFC 7386's own examples, and that a patch that was made leads where it should."""

import json

from hypothesis import given
from hypothesis import strategies as st

from genguard.objects.equality import same_json
from genguard.patch.merge import merge_patch, merge_patch_between
from tests.cases_loader import Case, table

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


@table("patch/rfc7386.yaml", "document", "patch", "result")
def test_a_patch_does_what_the_rfc_says(case: Case) -> None:
    parsed, patch = json.loads(case["document"]), json.loads(case["patch"])
    assert merge_patch(parsed, patch) == json.loads(case["result"]), case.because
    assert parsed == json.loads(case["document"]), "it stays as it is"


@given(DOCUMENTS, DOCUMENTS)
def test_a_patch_between_two_objects_makes_one_of_the_other(before: object, after: object) -> None:
    patch = merge_patch_between(before, after)  # type: ignore[arg-type]
    assert same_json(merge_patch(before, patch), after)
    assert (patch == {}) == same_json(before, after)

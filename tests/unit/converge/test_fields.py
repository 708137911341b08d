"""What a manifest sets, against what is stored; and a manifest laid over an object."""

import pytest
from hypothesis import given
from hypothesis import strategies as some

from genguard.blame.field_paths import show
from genguard.converge.creation import copy_of, pod_of, taken
from genguard.converge.fields import as_owned, differences, overlay, overwritten
from genguard.objects.served import Served
from tests.cases_loader import table


@table("converge/overwritten.yaml", "asked", "stored", "fields")
def test_a_field_that_a_manifest_sets_is_looked_for_in_what_is_stored(case):
    found = overwritten(case["asked"], case["stored"])
    assert [show(one.path) for one in found] == case["fields"], case.because


@table("converge/atomic.yaml", "group", "kind", "before", "after", "differ")
def test_a_list_that_is_owned_as_a_whole_differs_as_one(case):
    served = Served(case["group"], "v1", "any", "any", case["kind"], (), True, True, True)
    before, after = case["before"], case["after"]
    found = as_owned(differences(before, after), before, after, served)
    differ = {show(one.path): [one.before, one.after] for one in found}
    assert differ == case["differ"], case.because


@pytest.mark.parametrize(
    ("asked", "stored", "is_omitted"),
    [(False, {}, True), (0, {}, True), ("", {}, True), (0, {"a": 1}, False), (1, {}, False)],
)
def test_a_zero_value_may_be_left_out(asked, stored, is_omitted):
    (one,) = overwritten({"a": asked}, stored)
    assert one.is_omitted == is_omitted


@table("converge/overlay.yaml", "stored", "asked", "laid")
def test_a_manifest_is_laid_over_an_object(case):
    assert overlay(case["stored"], case["asked"]) == case["laid"], case.because


@table("converge/creation.yaml", "stored", "owner", "sent", "workload", "pod", "made", "taken")
def test_a_creation_is_that_of_a_copy_or_of_a_pod_and_what_it_loses_is_told(case):
    if "stored" in case.values:
        assert copy_of(case["stored"], case.get("owner", {})) == case["sent"], case.because
    elif "workload" in case.values:
        assert pod_of(case["workload"]) == case["pod"], case.because
    else:
        assert taken(case["sent"], case["made"]) == case["taken"], case.because


_VALUES = some.recursive(
    some.none() | some.integers(0, 3) | some.sampled_from(["", "a", "1000m"]),
    lambda inner: (
        some.dictionaries(some.sampled_from(["a", "name", "env"]), inner, max_size=3)
        | some.lists(inner, max_size=3)
    ),
    max_leaves=8,
)
_DOCUMENTS = some.dictionaries(some.sampled_from(["spec", "data", "items"]), _VALUES)


@given(stored=_DOCUMENTS, asked=_DOCUMENTS)
def test_what_was_laid_over_an_object_is_in_it(stored, asked):
    laid = overlay(stored, asked)
    assert overwritten(asked, laid) == []
    assert overlay(laid, asked) == laid


@given(document=_DOCUMENTS)
def test_an_object_does_not_differ_from_itself(document):
    assert differences(document, document) == []

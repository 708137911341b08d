"""Which reviews belong to one write."""

import json
from typing import Any

import pytest

from genguard.admission.decode import decode_review
from genguard.admission.review import JoinKey
from tests.cases_loader import table
from tests.reviews import make_review


def key(**arguments: Any) -> JoinKey | None:
    given = {"new": {}, "old": {}, **arguments}
    return decode_review(json.dumps(make_review(**given)).encode()).join_key


def test_phases_and_rounds_of_one_write_share_a_key_and_no_uid():
    assert key() == key()
    assert key(new={"spec": {"changed": "by a webhook"}}) == key()


@table("admission/other_writes.yaml", "other")
def test_another_write_has_another_key(case):
    assert key(**case["other"]) not in (None, key()), case.because


def test_a_create_cannot_be_told_from_its_siblings():
    assert key(operation="CREATE", old=None) is None


def test_a_version_that_is_absent_is_the_same_as_an_empty_one():
    assert key(old={"metadata": {"resourceVersion": None}}) == key(
        old={"metadata": {"resourceVersion": ""}}
    )


@pytest.mark.parametrize("where", ["name", "user"])
def test_names_longer_than_any_server_allows_are_not_remembered(where):
    assert key(**{where: "n" * 500}) is not None
    assert key(**{where: "n" * 5_000}) is None


@pytest.mark.parametrize(("length", "is_short"), [(10, True), (100_000, False)])
def test_names_of_kinds_that_no_api_server_lets_through_are_told(length, is_short):
    review = make_review(new={}, old={})
    review["request"]["kind"]["kind"] = "K" * length
    assert decode_review(json.dumps(review).encode()).has_short_names is is_short

"""What a manifest sets, against what is stored; and a manifest laid over an object."""

import pytest
from hypothesis import given
from hypothesis import strategies as some

from genguard.blame.places import show
from genguard.converge.fields import differences, overlay, overwritten

CONTAINER = {"name": "c", "image": "a"}


@pytest.mark.parametrize(
    ("asked", "stored", "fields", "because"),
    [
        ({"spec": {"a": 1}}, {"spec": {"a": 1, "b": 2}}, [], "what is added is nobody's wish"),
        ({"spec": {"a": 1}}, {"spec": {"a": 2}}, ["spec.a"], "another value"),
        ({"spec": {"a": 1}}, {"spec": {}}, ["spec.a"], "taken away"),
        ({"spec": {"a": 1}}, {}, ["spec.a"], "with all that it was in"),
        ({"spec": {"cpu": "1000m"}}, {"spec": {"cpu": "1"}}, [], "the same quantity"),
        ({"spec": {"a": "x"}}, {"spec": {"a": "y"}}, ["spec.a"], "texts are no quantities"),
        ({"metadata": {"generation": 1}}, {"metadata": {"generation": 2}}, [], "of the server"),
        (
            {"containers": [CONTAINER]},
            {"containers": [{"name": "sidecar"}, CONTAINER]},
            [],
            "an item that is added, before",
        ),
        (
            {"containers": [CONTAINER]},
            {"containers": [{"name": "c", "image": "b"}]},
            ["containers[c].image"],
            "an item is found by its name",
        ),
        (
            {"env": [{"name": "b"}, {"name": "a"}]},
            {"env": [{"name": "a"}, {"name": "b"}]},
            ["env"],
            "another order",
        ),
        ({"args": ["a", "b"]}, {"args": ["a"]}, ["args[1]"], "a list without keys"),
        (
            {"ports": [{"port": 80}]},
            {"ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}]},
            [],
            "a port without a protocol is one of TCP",
        ),
        ({"spec": {"a": {}}}, {"spec": {"a": {"b": 1}}}, [], "an object that is filled in"),
        ({"spec": {"a": None}}, {"spec": {}}, [], "null asks for nothing"),
        ({"paused": False}, {}, ["paused"], "a zero value that is left out"),
        ({"paused": False}, {"paused": True}, ["paused"], "a zero value that is not kept"),
        ({"emptyDir": {}}, {}, ["emptyDir"], "an empty object asks for itself"),
    ],
)
def test_a_field_that_a_manifest_sets_is_looked_for_in_what_is_stored(
    asked, stored, fields, because
):
    assert [show(one.place) for one in overwritten(asked, stored)] == fields, because


@pytest.mark.parametrize(
    ("asked", "stored", "is_omitted"),
    [(False, {}, True), (0, {}, True), ("", {}, True), (0, {"a": 1}, False), (1, {}, False)],
)
def test_a_zero_value_may_be_left_out(asked, stored, is_omitted):
    (one,) = overwritten({"a": asked}, stored)
    assert one.is_omitted == is_omitted


@pytest.mark.parametrize(
    ("stored", "asked", "laid", "because"),
    [
        ({"a": 1, "b": 2}, {"a": 3}, {"a": 3, "b": 2}, "a field is set, others stay"),
        (
            {"metadata": {"uid": "1", "name": "a"}},
            {"metadata": {"uid": "2", "name": "a"}},
            {"metadata": {"uid": "1", "name": "a"}},
            "what the API server writes stays",
        ),
        (
            {"containers": [{"name": "sidecar"}, {"name": "c", "image": "b", "tty": True}]},
            {"containers": [CONTAINER]},
            {"containers": [{"name": "c", "image": "a", "tty": True}, {"name": "sidecar"}]},
            "items are joined by their names",
        ),
        ({"args": ["a", "b"]}, {"args": ["c"]}, {"args": ["c"]}, "a list without keys is replaced"),
        ({"a": 1}, {"a": {"b": 1}}, {"a": {"b": 1}}, "another type"),
    ],
)
def test_a_manifest_is_laid_over_an_object(stored, asked, laid, because):
    assert overlay(stored, asked) == laid, because


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

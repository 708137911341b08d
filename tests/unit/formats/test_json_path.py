"""The part of kubectl's JSONPath that -o jsonpath takes, and one line for the rest of it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from genguard.formats.json_path import BadJsonPathError, parse_json_path
from tests.cases_loader import table

OBJECT = {
    "kind": "Deployment",
    "metadata": {"name": "web", "labels": {"app.kubernetes.io/name": "shop"}},
    "list": [{"n": 1}, {"n": 2}, {"n": 3}],
    "yes": True,
    "none": None,
    "half": 0.5,
}


@table("documents/json_paths.yaml", "template", "prints", "error")
def test_a_template_prints_what_kubectl_prints_or_is_refused(case):
    if case.get("error") is None:
        assert parse_json_path(case["template"]).apply(OBJECT) == str(case["prints"])
        return
    with pytest.raises(BadJsonPathError) as found:
        parse_json_path(case["template"])
    assert case["error"] in str(found.value)
    assert "\n" not in str(found.value)


def test_structs_as_builtins_have_tuples_for_lists():
    assert parse_json_path("{.list[1]} {.list[*]}").apply({"list": (1, 2)}) == "2 1 2"


@table("documents/json_path_values.yaml", "template", "values")
def test_its_values_are_those_that_it_leads_to_as_they_are(case):
    assert parse_json_path(case["template"]).values(OBJECT) == case["values"], case.because


@given(st.text(alphabet="{}[].*'\"$@\\an1:?()\n ", max_size=30))
def test_no_template_ends_in_anything_but_text_or_its_error(template):
    try:
        found = parse_json_path(template)
    except BadJsonPathError:
        return
    assert isinstance(found.apply(OBJECT), str)

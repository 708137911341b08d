"""Values as people read them."""

import pytest

from tests.cases_loader import table
from webhook.dashboard.page import BadQueryError, check_parameters, choice, link, number
from webhook.dashboard.rendering import ago, span


@table("dashboard/times.yaml", "span", "at", "text")
def test_a_span_of_time_and_how_long_ago_it_was(case):
    found = span(case["span"]) if "span" in case.values else ago(case["at"], 100.0)
    assert found == case["text"], case.because


def test_a_link_leaves_out_what_is_empty_and_escapes_the_rest():
    assert link("/", {"q": "a b&c", "state": "", "page": 2}, page=3) == "/?q=a+b%26c&page=3"
    assert link("/", {"q": ""}) == "/"


def test_a_bad_query_is_told_what_is_wrong_and_what_is_not_given_has_a_default():
    with pytest.raises(BadQueryError, match="unknown parameter 'x'; known are a, b"):
        check_parameters({"x": "1"}, ("a", "b"))
    with pytest.raises(BadQueryError, match="a must have at most 300 characters"):
        check_parameters({"a": "1" * 301}, ("a",))
    with pytest.raises(BadQueryError, match="a must be one of x, y"):
        choice({"a": "z"}, "a", ("x", "y"))
    for text in ("0", "10", "٣", "-1"):
        with pytest.raises(BadQueryError, match="n must be a number from 1 to 9"):
            number({"n": text}, "n", 1, 9)
    assert number({"n": ""}, "n", 4, 9) == number({}, "n", 4, 9) == 4
    assert choice({}, "a", ("x",), "x") == choice({"a": ""}, "a", ("x",), "x") == "x"

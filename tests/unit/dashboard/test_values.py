"""Values as people read them."""

import pytest

from webhook.dashboard.page import BadQueryError, check_parameters, choice, link, number
from webhook.dashboard.rendering import ago, span


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "-"), (0, "0 s"), (-3, "0 s"), (0.0004, "<1 ms"), (0.0123, "12 ms"), (1.26, "1.3 s"),
        (59.4, "59 s"), (60, "1 min"), (3_600, "1 h"), (86_399, "24 h"), (90, "1.5 min"),
        (36_000, "10 h"), (200_000, "2.3 d"),
    ],
)  # fmt: skip
def test_a_span_of_time(seconds, text):
    assert span(seconds) == text


@pytest.mark.parametrize(
    ("at", "text"),
    [
        (100.0, "just now"),
        (99.1, "just now"),
        (98.9, "1 s ago"),
        (-500.0, "10 min ago"),
        (200.0, "just now"),
    ],
)
def test_how_long_ago(at, text):
    assert ago(at, 100.0) == text


def test_a_link_leaves_out_what_is_empty_and_escapes_the_rest():
    assert link("/", {"q": "a b&c", "state": "", "page": 2}, page=3) == "/?q=a+b%26c&page=3"
    assert link("/", {"q": ""}) == "/"


@pytest.mark.parametrize(
    ("check", "told"),
    [
        (lambda: check_parameters({"x": "1"}, ("a", "b")), "unknown parameter 'x'; known are a, b"),
        (lambda: check_parameters({"a": "1" * 301}, ("a",)), "a must have at most 300 characters"),
        (lambda: choice({"a": "z"}, "a", ("x", "y")), "a must be one of x, y"),
        (lambda: number({"n": "0"}, "n", 1, 9), "n must be a number from 1 to 9"),
        (lambda: number({"n": "10"}, "n", 1, 9), "from 1 to 9"),
        (lambda: number({"n": "٣"}, "n", 1, 9), "from 1 to 9"),
        (lambda: number({"n": "-1"}, "n", 1, 9), "from 1 to 9"),
    ],
)
def test_a_bad_query_is_told_what_is_wrong(check, told):
    with pytest.raises(BadQueryError, match=told.replace("(", "\\(")):
        check()


def test_what_is_not_given_has_a_default():
    assert number({"n": ""}, "n", 4, 9) == number({}, "n", 4, 9) == 4
    assert choice({}, "a", ("x",), "x") == choice({"a": ""}, "a", ("x",), "x") == "x"

"""Values as people read them."""

import pytest
from markupsafe import Markup

from webhook.dashboard.page import BadQueryError, check_parameters, choice, link, number
from webhook.dashboard.rendering import ago, count, plain, span, stamp


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


def test_a_time_in_either_form():
    assert stamp(0.9) == stamp("1970-01-01T00:00:00.900000Z") == "1970-01-01T00:00:00Z"
    assert ago("1970-01-01T00:00:10Z", 70.0) == "1 min ago"
    assert count(12_345) == "12,345"


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("web", "web"),
        ("käse 🧀", "käse 🧀"),
        ("\x1b[31m", "\\x1b[31m"),
        ("a\nb", "a\\nb"),
        ("\u202egnp", "\\u202egnp"),
        ("\u200b", "\\u200b"),
        (7, 7),
        (None, None),
    ],
)
def test_what_cannot_be_seen_is_written_out(text, seen):
    assert plain(text) == seen


def test_what_is_a_part_of_the_page_already_is_left_as_it_is():
    markup = Markup("<b>\n</b>")
    assert plain(markup) is markup


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

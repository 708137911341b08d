"""Text of others is escaped where a terminal could take it for something else, and nowhere else."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from genguard.objects.shown import json_line, printable

TEXT = st.text(st.characters(exclude_categories=["Cs"]))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("web-1 é漢 — \U0001f600", "web-1 é漢 — \U0001f600"),
        ("a\x1b[2J\n\x7f", r"a\x1b[2J\n\x7f"),
        ("\x9b31m\u202e\u2028", r"\x9b31m\u202e\u2028"),
    ],
)
def test_what_is_printable_stays(text, shown):
    assert printable(text) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("é漢", '["é漢"]'),
        ("é\x7f\x9b\u202e漢", r'["é\u007f\u009b\u202e漢"]'),
        ("\U000e0041", r'["\udb40\udc41"]'),
        ("\n\x1b", r'["\n\u001b"]'),
    ],
)
def test_json_is_escaped_as_json(text, shown):
    assert json_line([text]) == shown


@given(st.recursive(TEXT | st.integers(0, 9), lambda one: st.dictionaries(TEXT, one)))
def test_json_is_printable_and_says_the_same(value):
    line = json_line(value)
    assert line.isprintable()
    assert json.loads(line) == value


@given(TEXT)
def test_any_text_becomes_printable(text):
    assert printable(text).isprintable()

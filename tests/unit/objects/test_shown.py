"""Text of others is escaped where a terminal could take it for something else, and nowhere else."""

import json

from hypothesis import given
from hypothesis import strategies as st

from genguard.objects.shown import json_line, printable
from tests.cases_loader import table

TEXT = st.text(st.characters(exclude_categories=["Cs"]))


@table("objects/printable.yaml", "text", "shown", "json")
def test_what_is_printable_stays_and_json_is_escaped_as_json(case):
    assert printable(case["text"]) == case["shown"], case.because
    assert json_line([case["text"]]) == case["json"], case.because


@given(st.recursive(TEXT | st.integers(0, 9), lambda one: st.dictionaries(TEXT, one)))
def test_json_is_printable_and_says_the_same(value):
    line = json_line(value)
    assert line.isprintable()
    assert json.loads(line) == value


@given(TEXT)
def test_any_text_becomes_printable(text):
    assert printable(text).isprintable()

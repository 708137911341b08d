"""Which values are shown: numbers, times and words that many objects share, and no text."""

import pytest

from genguard.detection.values import LONGEST_SHOWN, Shows, shown, shows_of, word_at
from tests.cases_loader import Case, table

READY = ("status", "conditions", "type=Ready")
OTHER = ("spec", "text")


@table("observations/values.yaml", "value", "at", "shown")
def test_numbers_times_and_words_of_conditions_are_shown_and_nothing_else(case: Case) -> None:
    path = (*READY, case["at"]) if "at" in case.values else OTHER
    word = word_at(path)
    assert shown(case["value"], word, Shows.PLAIN) == case.get("shown"), case.because
    assert shown(case["value"], word, Shows.NOTHING) is None


def test_with_the_flag_texts_are_shown_but_not_parts_of_them():
    assert shown("some text", "", Shows.ALL) == '"some text"'
    assert shown("a" * (LONGEST_SHOWN - 2), "", Shows.ALL) is not None
    assert shown("a" * (LONGEST_SHOWN - 1), "", Shows.ALL) is None
    assert shown("\x00" * 100, "", Shows.ALL) is None, "as JSON it is six times as long"


@pytest.mark.parametrize("most", Shows)
def test_nothing_of_a_secret_is_ever_shown(most):
    assert shows_of("", "secrets", most) is Shows.NOTHING
    assert shows_of("", "configmaps", most) is most
    assert shows_of("example.org", "secrets", most) is most

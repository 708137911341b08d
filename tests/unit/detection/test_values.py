"""Which values are shown: numbers, times and words that many objects share, and no text."""

import pytest

from genguard.detection.values import LONGEST_SHOWN, Shows, shown, shows_of

READY = ("status", "conditions", "type=Ready")
OTHER = ("spec", "text")


@pytest.mark.parametrize(
    ("value", "path", "text"),
    [
        (0, OTHER, "0"),
        (-3, OTHER, "-3"),
        (1.5, OTHER, "1.5"),
        (True, OTHER, "true"),
        (False, OTHER, "false"),
        ("", OTHER, '""'),
        ({}, OTHER, "{}"),
        ([], OTHER, "[]"),
        ("2026-11-23T12:00:00Z", OTHER, '"2026-11-23T12:00:00Z"'),
        ("2026-11-23T12:00:00.123456+01:00", OTHER, '"2026-11-23T12:00:00.123456+01:00"'),
        ("True", (*READY, "status"), '"True"'),
        ("Unknown", (*READY, "status"), '"Unknown"'),
        ("MinimumReplicasAvailable", (*READY, "reason"), '"MinimumReplicasAvailable"'),
        ("OOMKilled", (*READY, "reason"), '"OOMKilled"'),
        ("Ready", (*READY, "type"), '"Ready"'),
        ("example.com/Healthy", (*READY, "type"), '"example.com/Healthy"'),
    ],
)
def test_numbers_times_and_words_of_conditions_are_shown(value, path, text):
    assert shown(value, path, Shows.PLAIN) == text
    assert shown(value, path, Shows.NOTHING) is None


@pytest.mark.parametrize(
    ("value", "path", "because"),
    [
        (None, OTHER, "it is absent"),
        ("some text", OTHER, "a text may be a password"),
        ("True", OTHER, "a word anywhere else may be a password, too"),
        ("Ready", ("status", "phase"), "it is not of a condition"),
        ("123456", OTHER, "a number as text is a text"),
        (10**60, OTHER, "no count is as long as a key"),
        ("true", (*READY, "status"), "a condition has another word"),
        ("hunter2", (*READY, "status"), "it is none of the three words"),
        ("AKIAIOSFODNNSECRET", (*READY, "reason"), "capitals alone are a token, not words"),
        ("Sg7Qx", (*READY, "reason"), "a digit is in tokens, and hardly ever in a reason"),
        ("password is x", (*READY, "reason"), "a sentence is content"),
        ("A" + "a" * 64, (*READY, "reason"), "65 characters"),
        ("Ready\n", (*READY, "type"), "a line break is no part of a name"),
        ("True", (*READY, "message"), "a message is content"),
        ("2026-11-23T12:00:00Z secret", OTHER, "more than a time"),
        ("2026-11-23", OTHER, "a part of a time may be a birthday"),
        ({"a": 1}, OTHER, "too deep an object is one value"),
    ],
)
def test_any_other_value_is_hidden(value, path, because):
    assert shown(value, path, Shows.PLAIN) is None, because


def test_with_the_flag_texts_are_shown_but_not_parts_of_them():
    assert shown("some text", OTHER, Shows.ALL) == '"some text"'
    assert shown("a" * (LONGEST_SHOWN - 2), OTHER, Shows.ALL) is not None
    assert shown("a" * (LONGEST_SHOWN - 1), OTHER, Shows.ALL) is None
    assert shown("\x00" * 100, OTHER, Shows.ALL) is None, "as JSON it is six times as long"


@pytest.mark.parametrize("most", Shows)
def test_nothing_of_a_secret_is_ever_shown(most):
    assert shows_of("", "secrets", most) is Shows.NOTHING
    assert shows_of("", "configmaps", most) is most
    assert shows_of("example.org", "secrets", most) is most

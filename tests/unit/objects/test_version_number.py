"""Versions of objects are compared as numbers (KEP-5504)."""

import pytest

from genguard.objects.metadata import version_number


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("17", 17),
        ("0", 0),
        ("9" * 18, 10**18 - 1),
        ("9" * 19, 0),
        ("", 0),
        (None, 0),
        ("-1", 0),
        ("1e3", 0),
        ("١٢", 0),
        ("²", 0),
    ],
)
def test_what_is_no_number_counts_as_the_oldest_version(text, number):
    assert version_number(text) == number

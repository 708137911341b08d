"""A pair that is a value is kept while it is good, and replaced without a gap."""

from datetime import UTC, datetime, timedelta

import pytest

from certs import PairSnapshot, inspect, renew, service_names

AT = datetime(2026, 5, 1, tzinfo=UTC)
NAMES = service_names("genguard", "genguard-system")
YEAR = timedelta(days=365)
FIRST = renew(None, names=NAMES, at=AT).pair


def is_good(pair, at, bundle=None):
    return not inspect(
        pair.cert_pem, pair.key_pem, bundle or pair.ca_pem, at=at, names=NAMES
    ).errors


def test_the_first_is_made_and_the_next_look_keeps_it():
    assert is_good(FIRST, AT)
    for age in (YEAR / 2, YEAR * 3 / 4):  # when it is due, who serves it renews it
        assert renew(FIRST, names=NAMES, at=AT + age).pair is FIRST


@pytest.mark.parametrize(
    ("pair", "at", "names", "because"),
    [
        (PairSnapshot(FIRST.cert_pem, FIRST.key_pem, b""), AT, NAMES, "bundle is empty"),
        (FIRST, AT + 2 * YEAR, NAMES, "expired"),
        (FIRST, AT, service_names("genguard", "elsewhere"), "does not cover"),
        (PairSnapshot(FIRST.cert_pem, FIRST.key_pem, None), AT, NAMES, "no bundle"),
        (PairSnapshot(b"?", FIRST.key_pem, FIRST.ca_pem), AT, NAMES, "certificate is"),
        (PairSnapshot(FIRST.cert_pem, FIRST.key_pem, b"?"), AT, NAMES, "bundle is"),
        (None, AT, NAMES, "none yet"),
    ],
)
def test_what_is_missing_worn_out_or_wrong_is_replaced_and_why_is_told(pair, at, names, because):
    made = renew(pair, names=names, at=at)
    assert because in made.reason
    assert renew(made.pair, names=names, at=at).reason == ""


def test_a_leaf_of_either_authority_verifies_while_the_change_spreads():
    more = (*NAMES, "guard.example.org")
    made = renew(FIRST, names=more, at=AT).pair
    assert is_good(made, AT)
    assert is_good(FIRST, AT, bundle=made.ca_pem)


def test_an_authority_that_has_expired_is_not_carried_along():
    late = AT + 2 * YEAR
    assert renew(FIRST, names=NAMES, at=late).pair.ca_pem.count(b"BEGIN CERTIFICATE") == 1

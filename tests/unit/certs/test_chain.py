"""A leaf is trusted by any path to an authority of the bundle."""

import pytest

from certs.inspect import UNKNOWN_SIGNER, explain_failure
from tests.unit.certs.samples import AT, DAY, make

OLD = make("authority", ca=True, ends=AT + 100 * DAY)
NEW = make("authority", ca=True, ends=AT + 400 * DAY)  # of the same name, with another key
EXPIRED = make("expired", ca=True, begins=AT - 9 * DAY, ends=AT - DAY)
BETWEEN = make("between", ca=True, signer=OLD)
DEEPER = make("deeper", ca=True, signer=BETWEEN)
NO_CA = make("no-ca", ca=False)
NO_CONSTRAINTS = make("no-constraints", ca=None)


def leaf_of(signer):
    return make("leaf", signer=signer)


@pytest.mark.parametrize(
    ("because", "leaf", "sent", "bundle"),
    [
        ("signed by the anchor", leaf_of(OLD), [], [OLD]),
        ("an overlap bundle, leaf of the old authority", leaf_of(OLD), [], [NEW, OLD]),
        ("an overlap bundle, leaf of the new authority", leaf_of(NEW), [], [OLD, NEW]),
        ("an intermediate sent with the leaf", leaf_of(BETWEEN), [BETWEEN], [OLD]),
        ("two of them, in the wrong order", leaf_of(DEEPER), [BETWEEN, DEEPER], [OLD]),
        ("the intermediate itself is trusted", leaf_of(BETWEEN), [], [BETWEEN]),
        ("an expired namesake does no harm", leaf_of(OLD), [], [EXPIRED, OLD]),
        ("a leaf that is its own anchor", NO_CA, [], [NO_CA]),
    ],
)
def test_verifies(because, leaf, sent, bundle):
    certificates = [[made.certificate for made in group] for group in (sent, bundle)]
    assert explain_failure(leaf.certificate, *certificates, AT) is None


@pytest.mark.parametrize(
    ("leaf", "sent", "bundle", "reason"),
    [
        (leaf_of(OLD), [], [NEW], UNKNOWN_SIGNER),
        (leaf_of(BETWEEN), [], [OLD], UNKNOWN_SIGNER),
        (leaf_of(EXPIRED), [], [EXPIRED], "CN=expired expired at 2026-11-20T12:00:00Z"),
        (leaf_of(NO_CA), [], [NO_CA], "CN=no-ca is not marked as a CA"),
        (leaf_of(NO_CONSTRAINTS), [], [NO_CONSTRAINTS], "is not marked as a CA"),
        (leaf_of(NO_CA), [NO_CA], [OLD], UNKNOWN_SIGNER),
    ],
)
def test_fails_and_names_the_nearest_miss(leaf, sent, bundle, reason):
    certificates = [[made.certificate for made in group] for group in (sent, bundle)]
    assert reason in explain_failure(leaf.certificate, *certificates, AT)

"""What a Secret is to hold, by what it holds, what is trusted, and the time."""

from datetime import UTC, datetime, timedelta

import pytest

from certs import inspect, issue, issue_authority, renewal
from certs.issue import AUTHORITY_LIFETIME
from tests.unit.certs.samples import make

AT = datetime(2026, 5, 1, tzinfo=UTC)
NAMES = ("genguard.genguard-system.svc",)
LIFE = timedelta(days=30)
DAY = timedelta(days=1)
DUE = AT + 21 * DAY
OURS, OTHER = (issue_authority(at=AT) for _ in range(2))


def contents(authority, names=NAMES):
    leaf = issue(names=names, at=AT, authority=authority, leaf_lifetime=LIFE)
    signs = {"ca.crt": authority.cert_pem, "ca.key": authority.key_pem}
    return {"tls.crt": leaf.cert_pem, "tls.key": leaf.key_pem, **signs}


FILES, CA = contents(OURS), OURS.cert_pem


def due(files, *bundles: bytes, at=AT, may_sign=True):
    return renewal(files, bundles, at, names=NAMES, lifetime=LIFE, may_sign=may_sign)


@pytest.mark.parametrize(
    ("files", "at", "keeps_leaf", "keeps_authority", "because"),
    [
        (FILES, AT, True, True, "good and young"),
        (FILES, DUE, False, True, "two thirds of the leaf's life are over"),
        (FILES, AT + 40 * DAY, False, True, "the leaf has expired"),
        (FILES, AT + 7 * 365 * DAY, True, False, "the authority is old: it is spread first"),
        (FILES | {"ca.key": b""}, AT, True, True, "no key, while it is not needed"),
        (FILES | {"ca.key": b""}, DUE, True, False, "the key is lost"),
        (FILES | {"ca.key": OTHER.key_pem}, DUE, True, False, "the key of another"),
        (contents(OURS, ("elsewhere.svc",)), AT, False, True, "other names"),
        (FILES | {"tls.key": OTHER.key_pem}, AT, False, True, "another key"),
    ],
)
def test_what_is_kept(files, at, keeps_leaf, keeps_authority, because):
    found = due(files, CA, at=at).files
    assert (found["tls.crt"] == files["tls.crt"]) is keeps_leaf, because
    assert (found["ca.crt"] == files["ca.crt"]) is keeps_authority, because


def test_what_is_kept_is_the_same_to_the_byte_and_needs_no_reason():
    found = due(FILES | {"mine": b"kept"}, CA)
    assert (found.files, found.reason, found.left) == (FILES | {"mine": b"kept"}, "", "")
    assert due(FILES | {"mine": b"kept"}, CA, at=DUE).files["mine"] == b"kept"


def test_a_leaf_is_signed_once_its_authority_is_trusted_and_seen():
    assert due(FILES, CA, at=DUE, may_sign=False).files == FILES
    assert due(FILES, CA, b"", at=DUE).files == FILES, "a webhook without a bundle"
    found = due(FILES, CA, at=DUE)
    assert "due for renewal" in found.reason
    pair = found.files["tls.crt"], found.files["tls.key"], found.files["ca.crt"]
    assert inspect(*pair, at=DUE, names=NAMES).problems == ()


def test_an_authority_that_is_trusted_alone_goes_back_into_the_bundle():
    found = due(FILES | {"ca.crt": b""}, CA)
    assert found.files["ca.crt"] == CA


def test_an_authority_of_ones_own_lives_for_ten_years():
    assert timedelta(days=3650) == AUTHORITY_LIFETIME
    nobodys = due(FILES | {"ca.key": b""}, CA, at=DUE).files
    assert nobodys["ca.crt"].endswith(CA)
    assert nobodys["ca.crt"].count(b"BEGIN CERTIFICATE") == 2
    ends = AT + 11 * 365 * DAY
    assert due(nobodys, CA, at=ends).files["ca.crt"].count(b"BEGIN CERTIFICATE") == 1


def test_the_certificate_of_another_issuer_is_left():
    theirs = make("corporate CA", ca=True)
    leaf = make("leaf", signer=theirs)
    files = {"tls.crt": leaf.cert_pem, "tls.key": leaf.key_pem, "ca.crt": theirs.cert_pem}
    found = due(files, theirs.cert_pem, at=AT + 400 * DAY)
    assert "CN=corporate CA" in found.left
    assert found.files == files

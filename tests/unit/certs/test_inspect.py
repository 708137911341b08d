"""inspect(): every fault is named once, in words that say what to do; bad bytes never raise."""

import base64
import re

import pytest
from cryptography.hazmat.primitives import serialization
from hypothesis import given, settings
from hypothesis import strategies as st

from certs import inspect
from tests.unit.certs.samples import AT, CLIENT, DAY, NAME, SERVER, make

AUTHORITY = make("authority", ca=True, begins=AT - 9 * DAY, ends=AT + 300 * DAY)
LEAF = make("leaf", signer=AUTHORITY)
OTHER = make("other", signer=AUTHORITY)


def named(value):
    """A row is called by its reason."""
    return value if isinstance(value, str) else ""


_WORDS = re.compile(
    "expired at|not valid before|due for renewal|does not cover|has no names|not for servers"
    "|does not verify|does not belong|bundle is empty|certificate is not X|key is|bundle is"
)


def codes(inspection):
    return [(_WORDS.search(one.message)[0], one.severity) for one in inspection.problems]


def look(made, *, ca=AUTHORITY, at=AT, names=(NAME,)):
    bundle = None if ca is None else ca.cert_pem
    return inspect(made.cert_pem, made.key_pem, bundle, at=at, names=names)


def test_a_good_pair_has_details_and_no_problems():
    found = look(LEAF)
    assert found.problems == ()
    details = found.details
    assert (details.issuer, details.not_after) == ("CN=authority", AT + 30 * DAY)
    assert re.fullmatch("[0-9a-f]{64}", details.fingerprint)


FAULTS = [
    ("expired to the second", {"at": AT + 30 * DAY}, LEAF, ("expired at", "error")),
    ("one day before it begins", {"at": AT - 2 * DAY}, LEAF, ("not valid before", "error")),
    ("two thirds of 31 days", {"at": AT + 20 * DAY}, LEAF, ("due for renewal", "warning")),
    ("another name is dialled", {"names": ["other.svc"]}, LEAF, ("does not cover", "error")),
    ("an address is dialled", {"names": ["10.0.0.1"]}, LEAF, ("does not cover", "error")),
    ("only a common name", {}, make(signer=AUTHORITY, sans=()), ("has no names", "error")),
    ("for clients", {}, make(signer=AUTHORITY, usages=(CLIENT,)), ("not for servers", "error")),
    ("signed by itself", {}, make(), ("does not verify", "error")),
]


@pytest.mark.parametrize(("because", "call", "made", "expected"), FAULTS, ids=named)
def test_each_fault_is_the_only_problem_reported(because, call, made, expected):
    assert codes(look(made, **call)) == [expected]


@pytest.mark.parametrize(
    ("because", "call", "made"),
    [
        ("no extended usage means all", {}, make(signer=AUTHORITY, usages=None)),
        ("client and server", {}, make(signer=AUTHORITY, usages=(CLIENT, SERVER))),
        ("RSA is as good", {}, make(signer=AUTHORITY, rsa_bits=2048)),
        ("a wildcard", {}, make(signer=AUTHORITY, sans=("*.genguard-system.svc",))),
        ("an address by value", {"names": ["::1"]}, make(signer=AUTHORITY, sans=("0:0::1",))),
        ("names compare without case", {"names": [NAME.upper()]}, LEAF),
    ],
    ids=named,
)
def test_what_is_no_fault(because, call, made):
    assert look(made, **call).errors == ()


def test_a_wildcard_does_not_stand_for_two_labels_or_none():
    made = make(signer=AUTHORITY, sans=("*.svc",))
    assert codes(look(made, names=[NAME])) == [("does not cover", "error")]
    assert codes(look(made, names=["svc"])) == [("does not cover", "error")]


def test_the_key_of_another_certificate():
    found = inspect(LEAF.cert_pem, OTHER.key_pem, AUTHORITY.cert_pem, at=AT)
    assert codes(found) == [("does not belong", "error")]


DER = base64.b64decode(b"".join(LEAF.cert_pem.splitlines()[1:-1]))
NO_DER = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
LOCKED = LEAF.key_as(serialization.BestAvailableEncryption(b"passphrase"))
UNREADABLE = ["certificate is not X"]
BOTH_UNREADABLE = ["certificate is not X", "key is"]


@pytest.mark.parametrize(
    ("because", "changes", "expected"),
    [
        ("nothing at all", {"cert": b"", "key": b""}, BOTH_UNREADABLE),
        ("swapped", {"cert": LEAF.key_pem, "key": LEAF.cert_pem}, BOTH_UNREADABLE),
        ("half a certificate", {"cert": LEAF.cert_pem[:300]}, UNREADABLE),
        ("DER is not PEM", {"cert": DER}, UNREADABLE),
        ("PEM of no DER", {"cert": NO_DER}, UNREADABLE),
        ("half a key", {"key": LEAF.key_pem[:100]}, ["key is"]),
        ("a key under a passphrase", {"key": LOCKED}, ["key is"]),
        ("a bundle of garbage", {"ca": b"x"}, ["bundle is"]),
        ("an empty bundle, as cert-manager may leave it", {"ca": b"\n"}, ["bundle is empty"]),
    ],
    ids=named,
)
def test_bytes_that_are_no_pair_are_reported(because, changes, expected):
    files = {"cert": LEAF.cert_pem, "key": LEAF.key_pem, "ca": AUTHORITY.cert_pem} | changes
    found = inspect(files["cert"], files["key"], files["ca"], at=AT)
    assert [words for words, _ in codes(found)] == expected
    assert (found.details is None) == ("certificate is not X" in expected)


def test_a_serial_of_zero_is_read_in_silence(recwarn):
    """OPA's cert-controller issues them, and Go takes them."""
    lines = make(serial=1).cert_pem.splitlines()
    der = base64.b64decode(b"".join(lines[1:-1])).replace(b"\x02\x01\x01", b"\x02\x01\x00", 1)
    pem = b"\n".join([lines[0], base64.b64encode(der), lines[-1]])
    assert inspect(pem, b"", at=AT).details.issuer == "CN=made"
    assert not recwarn.list


def test_no_message_repeats_the_key():
    secret = base64.b64encode(b"a secret that nobody may read").decode()
    broken = f"-----BEGIN PRIVATE KEY-----\n{secret}\n-----END PRIVATE KEY-----\n".encode()
    assert secret not in repr(inspect(LEAF.cert_pem, broken, at=AT))


@pytest.mark.slow
@settings(max_examples=300)
@given(st.data())
def test_no_change_of_bytes_makes_it_raise(data):
    def broken(pem: bytes) -> bytes:
        """Damage the DER inside, so that the damage is not caught by the PEM reader at once."""
        lines = pem.splitlines()
        der = bytearray(base64.b64decode(b"".join(lines[1:-1])))
        for _ in range(data.draw(st.integers(0, 4))):
            der[data.draw(st.integers(0, len(der) - 1))] = data.draw(st.integers(0, 255))
        return b"\n".join([lines[0], base64.b64encode(bytes(der)), lines[-1]])

    inspect(broken(LEAF.cert_pem), broken(LEAF.key_pem), broken(AUTHORITY.cert_pem), at=AT)


COMMON_NAME = b"\x55\x04\x03"  # 2.5.4.3 in DER


def test_a_name_whose_type_does_not_fit_is_malformed_as_any_other():
    """cryptography says TypeError of a common name that is a BIT STRING and no text."""
    lines = AUTHORITY.cert_pem.splitlines()
    der = base64.b64decode(b"".join(lines[1:-1])).replace(
        COMMON_NAME + b"\x0c", COMMON_NAME + b"\x03"
    )
    odd = b"\n".join([lines[0], base64.b64encode(der), lines[-1]])
    found = inspect(LEAF.cert_pem, LEAF.key_pem, odd, at=AT)
    assert codes(found) == [("bundle is", "error")]

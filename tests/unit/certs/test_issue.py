"""issue(): what Go's crypto/x509 asks for, at a time that is given."""

import ipaddress

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID
from cryptography.x509.verification import PolicyBuilder, Store

from certs import CertificateError, PairSnapshot, issue, issue_authority, service_names
from certs.issue import AUTHORITY_LIFETIME, find_authority, renew_from
from tests.unit.certs.samples import AT, DAY, make

NAMES = service_names("genguard", "genguard-system")


def load(pem: bytes) -> x509.Certificate:
    return x509.load_pem_x509_certificate(pem)


def extension(certificate: x509.Certificate, kind: type) -> x509.Extension:
    return certificate.extensions.get_extension_for_class(kind)


def test_a_verifier_that_is_not_ours_accepts_the_leaf_for_every_name():
    issued = issue(names=(*NAMES, "10.0.0.7", "fd00::7"), at=AT)
    store = Store([load(issued.ca_pem)])
    subjects = [x509.DNSName(name) for name in (*NAMES, "localhost")]
    subjects += [
        x509.IPAddress(ipaddress.ip_address(ip))
        for ip in ("127.0.0.1", "::1", "10.0.0.7", "fd00::7")
    ]
    for subject in subjects:
        verifier = PolicyBuilder().store(store).time(AT).build_server_verifier(subject)
        assert len(verifier.verify(load(issued.cert_pem), [])) == 2


def test_the_leaf_can_serve_and_nothing_else():
    leaf = load(issue(names=NAMES, at=AT).cert_pem)
    assert not extension(leaf, x509.BasicConstraints).value.ca
    usage = extension(leaf, x509.KeyUsage)
    assert usage.critical
    assert usage.value.digital_signature
    assert not usage.value.key_cert_sign
    assert list(extension(leaf, x509.ExtendedKeyUsage).value) == [ExtendedKeyUsageOID.SERVER_AUTH]
    assert isinstance(leaf.public_key(), ec.EllipticCurvePublicKey)
    assert leaf.public_key().curve.name == "secp256r1"


def test_the_authority_can_sign_leaves_and_nothing_else():
    authority = load(issue_authority(at=AT).cert_pem)
    constraints = extension(authority, x509.BasicConstraints)
    assert (constraints.critical, constraints.value.ca, constraints.value.path_length) == (
        True,
        True,
        0,
    )
    assert extension(authority, x509.KeyUsage).value.key_cert_sign
    assert not extension(authority, x509.KeyUsage).value.digital_signature


def test_a_leaf_never_outlives_its_authority():
    authority = issue_authority(at=AT)
    late = AT + AUTHORITY_LIFETIME - DAY
    leaf = load(issue(names=NAMES, at=late, authority=authority).cert_pem)
    assert leaf.not_valid_after_utc == AT + AUTHORITY_LIFETIME


def test_no_private_key_is_in_a_repr():
    issued = issue(names=NAMES, at=AT)
    assert "PRIVATE" not in repr(issued)
    assert "PRIVATE" in issued.key_pem.decode()


@pytest.mark.parametrize(
    ("because", "changes"),
    [
        ("a name with a space", {"names": ["gen guard"]}),
        ("upper case is not what DNS compares", {"names": ["GenGuard.svc"]}),
        ("an underscore", {"names": ["gen_guard"]}),
        ("an empty name", {"names": [""]}),
        ("a label of 64 characters", {"names": ["a" * 64]}),
        ("a name of 254 characters", {"names": [".".join(["a" * 63] * 3 + ["a" * 62])]}),
        ("a line feed at the end", {"names": ["genguard\n"]}),
        ("a network is no address", {"names": ["10.0.0.0/8"]}),
        ("an authority of garbage", {"authority": PairSnapshot(b"x", b"y")}),
    ],
)
def test_what_makes_no_certificate_is_refused(because, changes):
    with pytest.raises(CertificateError):
        issue(**({"names": NAMES, "at": AT} | changes))


OLD = issue_authority(at=AT)
(CERTIFICATE,) = x509.load_pem_x509_certificates(OLD.cert_pem)
DUE = renew_from(CERTIFICATE.not_valid_before_utc, CERTIFICATE.not_valid_after_utc)
LEAF = make()


@pytest.mark.parametrize(
    ("because", "bundle", "key", "at", "found"),
    [
        ("it may sign", [CERTIFICATE], OLD.key_pem, DUE - DAY, True),
        ("it is one of several", [LEAF.certificate, CERTIFICATE], OLD.key_pem, AT, True),
        ("it is old", [CERTIFICATE], OLD.key_pem, DUE, False),
        ("it is not valid yet", [CERTIFICATE], OLD.key_pem, AT - DAY, False),
        ("it has another key", [CERTIFICATE], LEAF.key_pem, AT, False),
        ("it has no key", [CERTIFICATE], b"", AT, False),
        ("it is no authority", [LEAF.certificate], LEAF.key_pem, AT, False),
        ("there is none", [], OLD.key_pem, AT, False),
    ],
)
def test_an_authority_signs_again_until_two_thirds_of_its_life(because, bundle, key, at, found):
    assert find_authority(bundle, key, at) == (OLD if found else None)

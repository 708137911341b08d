"""Real handshakes on loopback: a good pair is served, a bad one never, and nothing weak."""

import ssl
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization

from certs import CertificateError, PairFiles, issue, issue_authority, write_files
from tests.unit.certs.samples import Made, make
from tests.unit.certs.volumes import mount_secret
from tests.unit.server.tls_client import Client, echoing, fingerprint
from webhook.server.tls import ServingCertificate

NOW = datetime.now(UTC)  # clients verify by the real clock
DAY, MINUTE = timedelta(days=1), timedelta(minutes=1)
NAME = "genguard.genguard-system.svc"
AUTHORITY = issue_authority(at=NOW)
FIRST = issue(names=[NAME], at=NOW, authority=AUTHORITY)
SECOND = issue(names=[NAME], at=NOW, authority=AUTHORITY)
OTHER = issue(names=[NAME], at=NOW)  # from another authority
OLD, NEW = fingerprint(FIRST.cert_pem), fingerprint(SECOND.cert_pem)


def rsa_pair(bits: int = 2048) -> dict[str, bytes]:
    """What an authority of somebody else may issue: a key of another type."""
    signer = Made(
        x509.load_pem_x509_certificate(FIRST.ca_pem),
        serialization.load_pem_private_key(AUTHORITY.key_pem, None),
    )
    begins = NOW - 30 * MINUTE
    made = make(signer=signer, sans=("localhost",), begins=begins, ends=NOW + DAY, rsa_bits=bits)
    return {"tls.key": made.key_pem, "tls.crt": made.cert_pem}


@pytest.fixture
def certificate(tmp_path: Path) -> ServingCertificate:
    write_files(tmp_path, FIRST.files)
    return ServingCertificate(PairFiles.in_folder(tmp_path), at=NOW)


def serving(certificate: ServingCertificate) -> AbstractAsyncContextManager[Client]:
    return echoing(certificate.context, FIRST.ca_pem)


def refusal(certificate, at):
    """Why the pair that is there now is not served."""
    with pytest.raises(CertificateError) as caught:
        certificate.reload_if_changed(at)
    return str(caught.value)


async def test_the_pair_of_the_files_is_served_and_described(certificate, caplog):
    async with serving(certificate) as client:
        assert (await client.shake()).fingerprint == OLD
    assert certificate.details.fingerprint == OLD
    assert certificate.details.not_after == (NOW + 30 * DAY).replace(microsecond=0)
    assert not caplog.records


async def test_a_new_pair_is_for_new_connections_and_open_ones_go_on(tmp_path, certificate):
    async with serving(certificate) as client:
        reader, writer = await client.connect()
        write_files(tmp_path, SECOND.files)
        assert certificate.reload_if_changed(NOW)
        assert certificate.details.fingerprint == NEW
        assert (await client.shake()).fingerprint == NEW
        writer.write(b"still here")
        assert await reader.readexactly(10) == b"still here"
        writer.close()
        await writer.wait_closed()
    assert certificate.reload_if_changed(NOW) is False


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_a_key_of_another_type_takes_the_place_of_the_old(tmp_path, certificate, version):
    """Loaded into a live context it would stand beside the old pair, which stays served."""
    pair = rsa_pair()
    async with serving(certificate) as client:
        write_files(tmp_path, pair)
        assert certificate.reload_if_changed(NOW)
        assert (await client.only(version).shake()).fingerprint == fingerprint(pair["tls.crt"])


BROKEN: list[tuple[str, Callable[[], Mapping[str, bytes]], str]] = [
    ("a look between two renames", lambda: {"tls.key": SECOND.key_pem}, "not belong"),
    ("a certificate cut short", lambda: {"tls.crt": SECOND.cert_pem[:200]}, "not X.509"),
    ("a key cut short", lambda: {"tls.key": SECOND.key_pem[:60]}, "not a private key"),
    ("an empty certificate", lambda: {"tls.crt": b""}, "not X.509"),
    ("expired", lambda: issue(names=[], at=NOW - 40 * DAY).files, "expired at"),
    ("of tomorrow", lambda: issue(names=[], at=NOW + DAY).files, "not valid before"),
    ("another bundle", lambda: {"ca.crt": OTHER.ca_pem}, "does not verify"),
    ("too small a key for OpenSSL", lambda: rsa_pair(1024), "OpenSSL refuses"),
]


@pytest.mark.parametrize(("because", "contents", "told"), BROKEN, ids=[row[0] for row in BROKEN])
async def test_a_bad_pair_is_refused_the_old_one_works_on_and_a_good_one_follows(
    tmp_path, certificate, because, contents, told
):
    async with serving(certificate) as client:
        write_files(tmp_path, contents())
        reasons = [refusal(certificate, at) for at in (NOW, NOW + MINUTE)]
        assert told in reasons[0]
        assert str(tmp_path) in reasons[0]
        assert reasons[0] == reasons[1]  # a log tells it once
        for _ in range(3):
            assert (await client.shake()).fingerprint == OLD
        assert certificate.details.fingerprint == OLD
        write_files(tmp_path, SECOND.files)
        assert certificate.reload_if_changed(NOW)
        assert (await client.shake()).fingerprint == NEW


def test_a_refused_pair_is_served_once_time_has_made_it_valid(tmp_path, certificate):
    early = issue(names=[], at=NOW + DAY)
    write_files(tmp_path, early.files)
    refusal(certificate, NOW)
    assert certificate.reload_if_changed(NOW + 2 * DAY)
    assert certificate.details.fingerprint == fingerprint(early.cert_pem)


async def test_a_mounted_secret_is_picked_up_when_the_kubelet_swaps_its_link(tmp_path):
    mount_secret(tmp_path, FIRST.files, 1)
    certificate = ServingCertificate(PairFiles.in_folder(tmp_path), at=NOW)
    async with serving(certificate) as client:
        assert (await client.shake()).fingerprint == OLD
        mount_secret(tmp_path, SECOND.files, 2)
        assert certificate.reload_if_changed(NOW)
        assert (await client.shake()).fingerprint == NEW


def test_no_descriptor_is_left_open(tmp_path, certificate):
    descriptors = Path("/proc/self/fd")
    before = len(list(descriptors.iterdir()))
    for turn in range(20):
        write_files(tmp_path, (FIRST if turn % 2 else SECOND).files)
        certificate.reload_if_changed(NOW)
        write_files(tmp_path, {"tls.crt": b"x"})
        refusal(certificate, NOW)
    assert len(list(descriptors.iterdir())) == before


BOTH = pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])


@BOTH
async def test_ciphers_are_aead_and_the_protocol_is_http_1_1(certificate, version):
    async with serving(certificate) as client:
        seen = await replace(client, protocols=("h2", "http/1.1")).only(version).shake()
    assert seen.protocol == "http/1.1"
    assert "GCM" in seen.cipher or "CHACHA20" in seen.cipher
    assert seen.version == version.name.replace("_", ".")


@pytest.mark.parametrize(
    ("because", "ciphers"), [("CBC", "ECDHE-ECDSA-AES128-SHA256"), ("no forward secrecy", "kRSA")]
)
async def test_weak_suites_of_tls_1_2_are_refused(certificate, because, ciphers):
    async with serving(certificate) as client:
        weak = replace(client, ciphers=ciphers).only(ssl.TLSVersion.TLSv1_2)
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await weak.shake()


def test_nothing_older_than_tls_1_2_is_offered(certificate):
    assert certificate.context.minimum_version is ssl.TLSVersion.TLSv1_2


@BOTH
async def test_handshakes_leave_no_session_behind(certificate, version):
    async with serving(certificate) as client:
        for _ in range(20):
            await client.only(version).shake()
    for context in (certificate.context, certificate._current):
        assert context.session_stats()["number"] == 0

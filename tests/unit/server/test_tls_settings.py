"""What a client can and cannot agree on with the listener."""

import ssl
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from certs import PairFiles, issue, write_files
from tests.unit.server.tls_client import Client, echoing
from webhook.server.tls import ServingCertificate

NOW = datetime.now(UTC)  # clients verify by the real clock
NAME = "genguard.genguard-system.svc"
ISSUED = issue(names=[NAME], at=NOW)
BOTH = pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])


@pytest.fixture
def certificate(tmp_path) -> ServingCertificate:
    files = {
        "ca.crt": ISSUED.ca_pem,
        "tls.key": ISSUED.key_pem,
        "tls.crt": ISSUED.cert_pem,
    }
    write_files(tmp_path, files)
    return ServingCertificate(PairFiles.in_folder(tmp_path), at=NOW)


def serving(certificate: ServingCertificate) -> AbstractAsyncContextManager[Client]:
    return echoing(certificate.context, ISSUED.ca_pem)


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

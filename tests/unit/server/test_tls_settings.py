"""What a client can and cannot agree on with the listener."""

import asyncio
import contextlib
import os
import ssl
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from certs import PairFiles, issue, write_files
from tests.unit.server.tls_client import Client, echoing, fingerprint
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


@pytest.mark.parametrize("name", ["localhost", NAME, "127.0.0.1"])
async def test_every_name_gets_the_certificate(certificate, name):
    """An address is never sent as a server name (RFC 6066): that client names nobody."""
    async with serving(certificate) as client:
        assert (await client.shake(name)).fingerprint == fingerprint(ISSUED.cert_pem)


@BOTH
async def test_ciphers_are_aead_and_the_protocol_is_http_1_1(certificate, version):
    async with serving(certificate) as client:
        seen = await replace(client, protocols=("h2", "http/1.1")).only(version).shake()
    assert seen.protocol == "http/1.1"
    assert "GCM" in seen.cipher or "CHACHA20" in seen.cipher
    assert seen.version == version.name.replace("_", ".")


async def test_a_client_that_asks_for_no_protocol_is_served(certificate):
    async with serving(certificate) as client:
        assert (await client.shake()).protocol is None


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


@pytest.mark.parametrize(
    "garbage", [b"GET / HTTP/1.1\r\n\r\n", os.urandom(512), b"\x16\x03\x01\x00\x05hello"], ids=len
)
async def test_garbage_does_not_disturb_the_next_client(certificate, garbage):
    async with serving(certificate) as client:
        reader, writer = await asyncio.open_connection("127.0.0.1", client.port)
        writer.write(garbage)
        with contextlib.suppress(ConnectionError):
            await reader.read()
        writer.close()
        assert (await client.shake()).fingerprint == fingerprint(ISSUED.cert_pem)

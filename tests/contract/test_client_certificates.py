"""--client-ca-file: who may talk to the admission port, and who is refused unread."""

import asyncio
import json
import logging
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.contract.hostile import GOOD
from tests.contract.service import Answer, Running, Wire, http_post, serving
from tests.controlplane.certificates import Authority, KeyPair
from webhook.server.certificate import names_of, read_authorities
from webhook.telemetry.logs import LOGGER

OURS, OTHERS = Authority("front-proxy"), Authority("front-proxy")  # the same name, another key
APISERVER = OURS.issue_client("apiserver")
POD = OURS.issue_client("some-pod")
FORGED = OTHERS.issue_client("apiserver")
REFUSED = (ConnectionError, ssl.SSLError, asyncio.IncompleteReadError)


@pytest.fixture
def ca_file(tmp_path: Path) -> Path:
    path = tmp_path / "clients.crt"
    path.write_bytes(OURS.pair.certificate)
    return path


@asynccontextmanager
async def guarded(ca_file: Path, *names: str, **options: bool) -> AsyncIterator[Running]:
    async with serving(
        ca_file.parent / "certs", client_ca_file=ca_file, client_names=names, **options
    ) as run:
        yield run


def presenting(pair: KeyPair | None, folder: Path) -> ssl.SSLContext:
    """A client's settings, with a certificate or without."""
    trust = ssl.create_default_context(cafile=str(folder / "certs" / "ca.crt"))
    if pair is not None:
        certificate, key = pair.write(folder, "client")
        trust.load_cert_chain(certificate, key)
    return trust


async def connected(run: Running, pair: KeyPair | None, folder: Path) -> Wire:
    return await Wire.dialled(run.service.secure_port, presenting(pair, folder))


async def asked(run: Running, pair: KeyPair | None, folder: Path) -> Answer:
    """One review on a connection of its own; raises one of REFUSED."""
    wire = await connected(run, pair, folder)
    try:
        return await wire.post(GOOD.encode())
    finally:
        await wire.close()


async def refusals(run: Running) -> dict[str, float]:
    return await run.samples("genguard_refused_requests_total")


async def test_the_api_servers_certificate_is_answered(ca_file, tmp_path):
    async with guarded(ca_file, "apiserver") as run:
        assert (await asked(run, APISERVER, tmp_path)).status == 200
        assert await refusals(run) == {}


async def test_without_names_whoever_the_authority_has_signed_is_answered(ca_file, tmp_path):
    async with guarded(ca_file) as run:
        for pair in (APISERVER, POD):
            assert (await asked(run, pair, tmp_path)).status == 200


@pytest.mark.parametrize(
    ("pair", "reason"),
    [(None, "no_client_certificate"), (FORGED, "untrusted_client")],
    ids=["without", "of-another-authority"],
)
async def test_a_client_without_a_good_certificate_is_refused_in_the_handshake(
    ca_file, tmp_path, pair, reason
):
    async with guarded(ca_file, "apiserver") as run:
        with pytest.raises(REFUSED):
            await asked(run, pair, tmp_path)
        assert await refusals(run) == {f'reason="{reason}"': 1.0}
        assert await run.samples("genguard_reviews_total") == {}
        assert (await asked(run, APISERVER, tmp_path)).status == 200


async def test_a_servers_certificate_does_not_make_a_client(ca_file, tmp_path):
    async with guarded(ca_file) as run:
        with pytest.raises(REFUSED):
            await asked(run, OURS.issue_server(), tmp_path)
        assert await refusals(run) == {'reason="untrusted_client"': 1.0}


@pytest.mark.parametrize("pieces", [1, 2])
async def test_a_name_that_is_not_allowed_gets_403_however_its_request_comes(
    ca_file, tmp_path, pieces
):
    async with guarded(ca_file, "apiserver") as run:
        wire = await connected(run, POD, tmp_path)
        request = http_post(GOOD.encode())
        for piece in [request] if pieces == 1 else [request[:300], request[300:]]:
            await wire.send(piece)
            await asyncio.sleep(0.02)
        answer = await wire.answer()
        assert (answer.status, answer.json["error"]) == (403, "client_not_allowed")
        assert answer.closes
        assert await wire.closed()
        await wire.close()
        assert await refusals(run) == {'reason="client_not_allowed"': 1.0}
        assert await run.samples("genguard_reviews_total") == {}


async def test_a_client_of_tls_1_2_is_refused_for_a_resumed_session_is_not_checked(
    ca_file, tmp_path
):
    async with guarded(ca_file) as run:
        trust = presenting(APISERVER, tmp_path)
        trust.maximum_version = ssl.TLSVersion.TLSv1_2
        with pytest.raises(REFUSED):
            await Wire.dialled(run.service.secure_port, trust)


async def test_another_authority_is_trusted_as_soon_as_the_file_holds_it(ca_file, tmp_path):
    async with guarded(ca_file) as run:
        kept = await connected(run, APISERVER, tmp_path)
        assert not (await kept.post(GOOD.encode())).closes
        ca_file.write_bytes(OTHERS.pair.certificate)
        look(run)
        assert (await asked(run, FORGED, tmp_path)).status == 200
        with pytest.raises(REFUSED):
            await asked(run, APISERVER, tmp_path)
        assert (await kept.post(GOOD.encode())).closes  # the next one is checked again
        await kept.close()


def look(run: Running) -> None:
    """What the server does every few seconds."""
    service = run.service
    if service._keeper.refresh(datetime.now(UTC)):
        service._port.retire()


@pytest.mark.parametrize(
    "content",
    [b"", b"no PEM", APISERVER.certificate, None],
    ids=["empty", "no PEM", "no authority", "gone"],  # the certificate is another in each process
)
async def test_a_file_that_is_spoilt_changes_nothing_and_is_told_once(
    ca_file, tmp_path, caplog, content
):
    caplog.set_level(logging.INFO, LOGGER.name)
    async with guarded(ca_file) as run:
        ca_file.unlink() if content is None else ca_file.write_bytes(content)
        look(run)
        look(run)
        assert (await asked(run, APISERVER, tmp_path)).status == 200
    told = [one for one in caplog.records if one.message == "client authority refused"]
    assert len(told) == 1
    assert str(ca_file) in json.dumps(told[0].fields)


async def test_a_pair_that_is_renewed_keeps_clients_checked(ca_file, tmp_path):
    async with guarded(ca_file) as run:
        folder = tmp_path / "certs"
        for name in ("tls.crt", "tls.key", "ca.crt", "ca.key"):
            (folder / name).unlink(missing_ok=True)
        run.service._keeper._next_renewal = datetime.now(UTC)
        before = run.service.certificate.fingerprint
        look(run)
        assert run.service.certificate.fingerprint != before
        with pytest.raises(REFUSED):
            await asked(run, None, tmp_path)
        assert (await asked(run, APISERVER, tmp_path)).status == 200


async def test_the_ops_port_asks_nobody_for_a_certificate(ca_file, tmp_path):
    async with guarded(ca_file, ops_tls=True) as run:
        assert (await run.ops("/livez", tls=True)).status == 200


@pytest.mark.parametrize(
    ("content", "said"),
    [(None, "is not there"), (b"\xff", "no certificates"), (APISERVER.certificate, "no authority")],
    ids=["absent", "no-PEM", "a-leaf"],
)
def test_a_file_without_an_authority_says_so_at_the_start(ca_file, content, said):
    ca_file.unlink() if content is None else ca_file.write_bytes(content)
    with pytest.raises(Exception, match=said):
        read_authorities(ca_file)


@pytest.mark.parametrize("peer", [None, {}, {"subject": ()}])
def test_a_peer_without_a_subject_has_no_name(peer):
    assert names_of(peer) == frozenset()

"""The pair of a Secret as a source to serve from."""

import asyncio
from datetime import UTC, datetime

import pytest

from certs import CertificateError, PairFiles, issue, write_files
from webhook.server.certificate import CertificateKeeper
from webhook.server.held import HeldPair, until_good
from webhook.server.options import ServerOptions

NOW = datetime.now(UTC)
FIRST, SECOND = (issue(names=["localhost"], at=NOW) for _ in range(2))


def held(issued):
    return {
        "tls.crt": issued.leaf.cert_pem,
        "tls.key": issued.leaf.key_pem,
        "ca.crt": issued.authority.cert_pem,
    }


def test_files_are_served_until_the_secret_has_been_seen_and_then_it_alone(tmp_path):
    write_files(tmp_path, held(FIRST))
    pair = HeldPair("genguard-tls", PairFiles.in_folder(tmp_path))
    assert pair.read().cert_pem == FIRST.leaf.cert_pem
    assert pair.place("key") == f"{tmp_path}/tls.key"
    pair.take(held(SECOND))
    assert pair.read().cert_pem == SECOND.leaf.cert_pem
    assert pair.place("key") == "secret genguard-tls: tls.key"


def test_what_is_spoilt_is_told_and_the_last_good_pair_is_served_on(caplog):
    pair = HeldPair("genguard-tls", None)
    pair.take(held(FIRST))
    keeper = CertificateKeeper(ServerOptions(pair=pair))
    good = keeper.serving.fingerprint
    for spoilt in ({"tls.crt": b"spoilt"}, {"tls.key": b""}):
        pair.take(held(FIRST) | spoilt)
        assert not keeper.look(NOW)
        (told,) = caplog.records
        assert "secret genguard-tls" in told.facts["reason"]
        caplog.clear()
    pair.take(held(SECOND))
    assert keeper.look(NOW)
    assert keeper.serving.fingerprint != good


async def test_a_change_is_told_at_once():
    pair = HeldPair("genguard-tls", None)
    waiting = asyncio.create_task(pair.changed(60.0))
    await asyncio.sleep(0)
    assert not waiting.done()
    pair.take(held(FIRST))
    await waiting
    await pair.changed(0.0)  # nothing new: the time is over


async def test_what_is_good_is_waited_for_and_in_vain_it_says_why():
    pair = HeldPair("genguard-tls -n genguard-system", None)
    with pytest.raises(CertificateError, match="genguard-tls -n genguard-system has not been seen"):
        await until_good(pair, 0.0)
    pair.take(held(FIRST))
    await until_good(pair, 0.0)

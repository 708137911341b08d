"""Which certificate is served as time passes, and files or a Secret change."""

import logging
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from certs import CertificateError, PairFiles, inspect, issue, write_files
from tests.contract.hostile import GOOD
from tests.contract.service import serving
from webhook.server.certificate import CertificateKeeper
from webhook.server.settings import Settings
from webhook.server.tls import HeldPair, until_good

NOW = datetime.now(UTC)
DAY = timedelta(days=1)


def put(folder: Path, at: datetime = NOW) -> None:
    write_files(folder, issue(names=["localhost"], at=at).files)


def own(folder: Path) -> CertificateKeeper:
    return CertificateKeeper(Settings(cert_dir=folder))


def given(folder: Path) -> CertificateKeeper:
    files = {"tls_cert_file": folder / "tls.crt", "tls_private_key_file": folder / "tls.key"}
    return CertificateKeeper(Settings(**files))


def test_one_of_our_own_is_made_where_there_is_none_and_kept_where_there_is(tmp_path):
    first = own(tmp_path).serving.details.fingerprint
    assert own(tmp_path).serving.details.fingerprint == first
    assert (tmp_path / "ca.crt").exists()


def test_one_of_our_own_is_renewed_before_it_expires(tmp_path):
    keeper = own(tmp_path)
    first = keeper.serving.details.fingerprint
    assert not keeper.refresh(NOW + DAY)
    assert keeper.refresh(NOW + 29 * DAY)
    assert keeper.serving.details.fingerprint != first
    assert keeper.serving.details.not_after > NOW + 50 * DAY


@pytest.mark.parametrize("days", [1 / 8, 365, 3_650, -1 / 8, -365, -3_650])
def test_after_a_clock_was_put_right_one_of_our_own_is_good_within_the_hour(tmp_path, days):
    keeper = own(tmp_path)
    wrong = NOW + days * DAY
    for hours in range(3):
        keeper.refresh(wrong + hours * DAY / 24)
    for minutes in range(0, 61, 10):
        keeper.refresh(NOW + minutes * DAY / 1_440)
    files = [(tmp_path / name).read_bytes() for name in ("tls.crt", "tls.key", "ca.crt")]
    found = inspect(*files, at=NOW + DAY / 24, names=["localhost"])
    assert found.problems == ()
    assert keeper.serving.details.fingerprint == found.details.fingerprint


def test_a_bad_one_is_told_once_and_again_after_a_good_one(tmp_path, caplog):
    caplog.set_level(logging.ERROR, "genguard")
    put(tmp_path)
    keeper = given(tmp_path)
    good = keeper.serving.details.fingerprint
    for _ in range(3):
        (tmp_path / "tls.crt").write_text("no certificate")
        assert not keeper.refresh(NOW)
    assert [record.message for record in caplog.records] == ["certificate refused"]
    assert keeper.serving.details.fingerprint == good
    put(tmp_path)
    assert keeper.refresh(NOW)
    (tmp_path / "tls.crt").write_text("no certificate")
    assert not keeper.refresh(NOW)
    assert len(caplog.records) == 2


async def test_one_of_a_secret_that_is_due_for_renewal_is_told_once(caplog):
    pair = HeldPair("genguard-tls")
    pair.take(issue(names=["localhost"], at=NOW - 25 * DAY, leaf_lifetime=30 * DAY).files)
    await until_good(pair, 0.0)
    CertificateKeeper(Settings(), pair)
    assert [record.message for record in caplog.records] == ["certificate"]


def test_a_renewal_that_cannot_be_written_leaves_the_old_one_served(tmp_path, caplog):
    folder = tmp_path / "certs"
    keeper = own(folder)
    first = keeper.serving.details.fingerprint
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()
    folder.write_text("a file is in the way")
    assert not keeper.refresh(NOW + 29 * DAY)
    assert keeper.serving.details.fingerprint == first
    assert "certificate not renewed" in [record.message for record in caplog.records]


async def test_connections_of_an_old_certificate_are_closed_with_their_next_answer(tmp_path):
    async with serving(tmp_path) as run:
        old = await run.connect()
        assert not (await old.post(GOOD.encode())).closes
        put(tmp_path)
        assert run.service._keeper.refresh(NOW)
        run.service._port.retire()
        assert (await old.post(GOOD.encode())).closes
        assert await old.closed()
        run.trust.load_verify_locations(tmp_path / "ca.crt")
        new = await run.connect()
        assert not (await new.post(GOOD.encode())).closes


FIRST, SECOND = (issue(names=["localhost"], at=NOW) for _ in range(2))


def test_files_are_served_until_the_secret_has_been_seen_and_then_it_alone(tmp_path):
    write_files(tmp_path, FIRST.files)
    pair = HeldPair("genguard-tls", PairFiles.in_folder(tmp_path))
    assert pair.read().cert_pem == FIRST.cert_pem
    assert pair.location("key") == f"{tmp_path}/tls.key"
    pair.take(SECOND.files)
    assert pair.read().cert_pem == SECOND.cert_pem
    assert pair.location("key") == "secret genguard-tls: tls.key"


async def test_what_is_good_is_waited_for_and_in_vain_it_says_why():
    pair = HeldPair("genguard-tls -n genguard-system")
    with pytest.raises(CertificateError, match="genguard-tls -n genguard-system has not been seen"):
        await until_good(pair, 0.0)
    pair.take(FIRST.files)
    await until_good(pair, 0.0)

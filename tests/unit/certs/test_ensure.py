"""ensure(): a folder with a pair that works, and nothing of anybody else's overwritten."""

import multiprocessing
import stat

import pytest

from certs import CertificateError, PairFileError, PairFiles, ensure, inspect, write_files
from certs import files as files_module
from certs.issue import LEAF_LIFETIME
from tests.cases_loader import table
from tests.unit.certs.samples import AT, DAY, NAME, make

NAMES = [NAME]


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def errors(folder, at):
    pair = PairFiles.in_folder(folder).read()
    return inspect(pair.cert_pem, pair.key_pem, pair.ca_pem, at=at, names=NAMES).problems


def test_an_empty_folder_gets_an_authority_and_a_pair(tmp_path):
    done = ensure(tmp_path / "made" / "too", names=NAMES, at=AT)
    folder = tmp_path / "made" / "too"
    assert done.action == "authority-issued"
    assert set(contents(folder)) == {"tls.crt", "tls.key", "ca.crt", "ca.key"}
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert errors(folder, AT) == ()
    assert done.pair == PairFiles.in_folder(folder).read()


def test_a_good_pair_is_kept_byte_for_byte(tmp_path):
    ensure(tmp_path, names=NAMES, at=AT)
    before = contents(tmp_path)
    done = ensure(tmp_path, names=NAMES, at=AT + DAY)
    assert (done.action, done.reason) == ("kept", "")
    assert contents(tmp_path) == before


def test_two_thirds_into_its_life_the_leaf_is_renewed_and_the_bundle_stays(tmp_path):
    ensure(tmp_path, names=NAMES, at=AT)
    before = contents(tmp_path)
    at = AT + LEAF_LIFETIME * 2 / 3
    done = ensure(tmp_path, names=NAMES, at=at)
    after = contents(tmp_path)
    assert done.action == "leaf-issued"
    assert "due for renewal" in done.reason
    assert after["ca.crt"] == before["ca.crt"]
    assert after["ca.key"] == before["ca.key"]
    assert after["tls.crt"] != before["tls.crt"]
    assert errors(tmp_path, at) == ()


@pytest.mark.parametrize(
    ("because", "call"),
    [
        ("expired while the machine slept", {"at": AT + 40 * DAY}),
        ("one name more is asked for", {"names": [NAME, "genguard.example"]}),
        ("one address more is asked for", {"names": [NAME, "10.0.0.7"]}),
    ],
)
def test_a_leaf_is_made_again_from_the_same_authority(tmp_path, because, call):
    first = ensure(tmp_path, names=NAMES, at=AT)
    again = ensure(tmp_path, **({"names": NAMES, "at": AT} | call))
    assert again.action == "leaf-issued"
    assert again.pair.ca_pem == first.pair.ca_pem
    assert ensure(tmp_path, **({"names": NAMES, "at": AT} | call)).action == "kept"


@table("certs/lost_files.yaml", "lost", "action")
def test_a_crash_while_writing_is_mended(tmp_path, case):
    ensure(tmp_path, names=NAMES, at=AT)
    for name in case["lost"]:
        (tmp_path / name).unlink()
    assert ensure(tmp_path, names=NAMES, at=AT).action == case["action"], case.because
    assert errors(tmp_path, AT) == ()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ca.key", "ca.crt", "tls.key", "tls.crt"])
@pytest.mark.parametrize(
    "content",
    [b"", b"garbage", make().key_pem, make().cert_pem],
    ids=["empty", "garbage", "a key", "a certificate"],
)
def test_our_own_files_are_made_again_when_broken(tmp_path, name, content):
    ensure(tmp_path, names=NAMES, at=AT)
    write_files(tmp_path, {name: content})
    ensure(tmp_path, names=NAMES, at=AT)
    assert errors(tmp_path, AT) == ()
    ensure(tmp_path, names=NAMES, at=AT + 25 * DAY)
    assert errors(tmp_path, AT + 25 * DAY) == ()


FOREIGN = make(sans=("elsewhere.svc",))


def put_foreign(folder, **changes):
    write_files(folder, {"tls.crt": FOREIGN.cert_pem, "tls.key": FOREIGN.key_pem} | changes)


@pytest.mark.parametrize("at", [AT, AT + 29 * DAY])
def test_a_pair_of_somebody_else_is_served_even_near_its_end(tmp_path, at):
    put_foreign(tmp_path)
    before = contents(tmp_path)
    done = ensure(tmp_path, names=NAMES, at=at)
    assert (done.action, done.pair.cert_pem) == ("kept", FOREIGN.cert_pem)
    assert contents(tmp_path) == before


@pytest.mark.parametrize(
    ("because", "at", "changes", "told"),
    [
        ("expired", AT + 31 * DAY, {}, "expired at 2026-12-21T12:00:00Z"),
        ("another key", AT, {"tls.key": make().key_pem}, "does not belong"),
        ("garbage", AT, {"tls.crt": b"x"}, "not X.509"),
    ],
)
def test_a_bad_pair_of_somebody_else_is_refused_and_left(tmp_path, because, at, changes, told):
    put_foreign(tmp_path, **changes)
    before = contents(tmp_path)
    with pytest.raises(CertificateError, match=told) as caught:
        ensure(tmp_path, names=NAMES, at=at)
    assert str(tmp_path) in str(caught.value)
    assert contents(tmp_path) == before


@pytest.fixture
def read_only(monkeypatch):
    """Any folder, as root sees one that is mounted read-only."""

    def refuse(**_):
        raise OSError(30, "Read-only file system")

    def apply():
        monkeypatch.setattr(files_module.tempfile, "mkstemp", refuse)

    return apply


def test_a_pair_that_is_still_valid_is_kept_where_no_new_one_can_be_written(tmp_path, read_only):
    first = ensure(tmp_path, names=NAMES, at=AT)
    read_only()
    done = ensure(tmp_path, names=NAMES, at=AT + 25 * DAY)
    assert (done.action, done.pair) == ("kept", first.pair)
    assert "due for renewal" in done.reason
    assert "Read-only file system" in done.reason


def test_an_expired_pair_is_not_kept_where_no_new_one_can_be_written(tmp_path, read_only):
    ensure(tmp_path, names=NAMES, at=AT)
    read_only()
    with pytest.raises(PairFileError, match="Read-only"):
        ensure(tmp_path, names=NAMES, at=AT + 31 * DAY)


def _ensure(folder):
    return ensure(folder, names=NAMES, at=AT).pair.ca_pem


@pytest.mark.slow
def test_processes_that_start_at_once_agree_on_one_pair(tmp_path):
    with multiprocessing.get_context("spawn").Pool(4) as pool:
        bundles = pool.map(_ensure, [tmp_path] * 4)
    assert len(set(bundles)) == 1
    assert errors(tmp_path, AT) == ()

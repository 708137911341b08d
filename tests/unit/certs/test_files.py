"""Files are read with a word about what is wrong, and written whole."""

import os
import stat

import pytest

from certs import PairFileError, PairFiles, write_files
from certs import files as files_module

OLD = {"tls.crt": b"old cert", "tls.key": b"old key", "ca.crt": b"old ca"}
NEW = {"tls.crt": b"new cert", "tls.key": b"new key", "ca.crt": b"new ca"}


def read(folder):
    pair = PairFiles.in_folder(folder).read()
    return {"tls.crt": pair.cert_pem, "tls.key": pair.key_pem, "ca.crt": pair.ca_pem}


def test_only_the_owner_reads_keys_and_everybody_reads_certificates(tmp_path):
    old_mask = os.umask(0)
    try:
        write_files(tmp_path, OLD | {"ca.key": b"signs"})
    finally:
        os.umask(old_mask)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert modes == {"tls.crt": 0o644, "ca.crt": 0o644, "tls.key": 0o600, "ca.key": 0o600}


def test_a_write_that_fails_leaves_the_old_file_and_no_other(tmp_path, monkeypatch):
    write_files(tmp_path, OLD)

    def full(_descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files_module.os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_files(tmp_path, NEW)
    monkeypatch.undo()
    assert read(tmp_path) == OLD
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(OLD)


def test_the_bundle_may_be_absent_and_that_is_not_the_same_as_empty(tmp_path):
    write_files(tmp_path, {"tls.crt": b"c", "tls.key": b"k"})
    assert PairFiles.in_folder(tmp_path).read().ca_pem is None
    write_files(tmp_path, {"ca.crt": b""})
    assert PairFiles.in_folder(tmp_path).read().ca_pem == b""


def test_a_pair_of_other_names_looks_for_its_bundle_beside_the_certificate(tmp_path):
    write_files(tmp_path, {"server.pem": b"c", "server.key": b"k", "ca.crt": b"a"})
    pair = PairFiles.beside(tmp_path / "server.pem", tmp_path / "server.key").read()
    assert (pair.cert_pem, pair.key_pem, pair.ca_pem) == (b"c", b"k", b"a")


@pytest.mark.parametrize(
    ("because", "present", "named"),
    [
        ("a bundle alone is no pair", ["ca.crt"], "tls.crt"),
        ("a certificate alone", ["tls.crt"], "tls.key"),
        ("a key alone", ["tls.key", "ca.crt"], "tls.crt"),
    ],
)
def test_the_error_names_the_file_that_is_missing(tmp_path, because, present, named):
    write_files(tmp_path, {name: OLD[name] for name in present})
    with pytest.raises(PairFileError, match=f"^{tmp_path}/{named}: is missing"):
        read(tmp_path)


def test_a_pipe_is_not_waited_for(tmp_path):
    write_files(tmp_path, {"tls.crt": b"c"})
    os.mkfifo(tmp_path / "tls.key")
    with pytest.raises(PairFileError, match="is not a file"):
        read(tmp_path)


def test_a_file_larger_than_a_secret_is_not_read_whole(tmp_path):
    write_files(tmp_path, OLD | {"tls.crt": b"x" * ((1 << 20) + 1)})
    with pytest.raises(PairFileError, match="larger than"):
        read(tmp_path)

"""`serve` with certificates that it cannot serve: one line that names the file."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

import certs
from webhook.cli import main


def made(folder: Path, **ago: float) -> Path:
    at = datetime.now(UTC) - timedelta(**ago)
    certs.ensure(folder, names=("localhost",), at=at, leaf_lifetime=timedelta(days=30))
    return folder


def other_key(folder: Path) -> None:
    made(folder / "other")
    (folder / "tls.key").write_bytes((folder / "other" / "tls.key").read_bytes())


def encrypted(folder: Path) -> None:
    key = load_pem_private_key((folder / "tls.key").read_bytes(), None)
    locked = BestAvailableEncryption(b"canary-7f3a")
    content = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, locked)
    (folder / "tls.key").write_bytes(content)


def as_folder(folder: Path) -> None:
    (folder / "tls.key").unlink()
    (folder / "tls.key").mkdir()


SPOILT = {
    "not matching": (0, other_key, "tls.key"),
    "encrypted": (0, encrypted, "tls.key"),
    "expired": (400, lambda folder: None, "tls.crt"),
    "missing": (0, lambda folder: (folder / "tls.key").unlink(), "tls.key"),
    "a folder": (0, as_folder, "--tls-private-key-file"),
    "empty": (0, lambda folder: (folder / "tls.crt").write_bytes(b""), "tls.crt"),
    "no PEM": (0, lambda folder: (folder / "tls.crt").write_bytes(b"canary-7f3a"), "tls.crt"),
    "swapped": (0, lambda folder: (folder / "tls.crt").replace(folder / "tls.key"), "tls"),
}


def test_a_pair_that_cannot_be_served_is_told_in_a_line(tmp_path, subtests):
    for name, (days, spoil, told) in SPOILT.items():
        folder = made(tmp_path / name, days=days)
        spoil(folder)
        with subtests.test(name):
            it_is_told_in_a_line(folder, told, code=2 if name == "a folder" else 1)


def it_is_told_in_a_line(folder: Path, told: str, *, code: int) -> None:
    words = [
        f"--tls-cert-file={folder / 'tls.crt'}",
        f"--tls-private-key-file={folder / 'tls.key'}",
    ]
    done = CliRunner().invoke(main, ["serve", *words, "--secure-port=0", "--ops-port=0"])
    assert isinstance(done.exception, SystemExit), done.exc_info
    assert done.exit_code == code
    assert done.stderr.count("\n") == 1
    assert str(folder) in done.stderr
    assert told in done.stderr
    assert "canary" not in done.stderr


@pytest.mark.parametrize("content", [None, b"", b"canary-7f3a"], ids=["missing", "empty", "no PEM"])
def test_an_authority_that_cannot_be_read_is_told_in_a_line(content, tmp_path):
    path = tmp_path / "ca.crt"
    if content is not None:
        path.write_bytes(content)
    words = [f"--client-ca-file={path}", f"--cert-dir={tmp_path / 'certs'}"]
    done = CliRunner().invoke(main, ["serve", *words, "--secure-port=0", "--ops-port=0"])
    assert (done.exit_code, done.stderr.count("\n")) == (1, 1)
    assert str(path) in done.stderr

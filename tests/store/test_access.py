"""Who may use the store, and over what: users with few rights, passwords in files, TLS."""

import ssl
from datetime import UTC, datetime
from pathlib import Path

import pytest

import certs
from tests.controlplane.client import wait_until
from tests.store.proxy import Proxy
from tests.store.replica import Replica
from tests.store.server import StoreServer

ROOT = Path(__file__).parents[2]
_SECRET = "not-in-any-log"  # noqa: S105


def _documented_rights() -> list[str]:
    """The line of docs/replicas.md that people copy, without its user and password."""
    (line,) = (
        line
        for line in (ROOT / "docs" / "replicas.md").read_text().splitlines()
        if line.startswith("ACL SETUSER genguard")
    )
    return line.split()[5:]


@pytest.fixture(scope="module")
def user(store: StoreServer) -> str:
    store.run("ACL", "SETUSER", "genguard", "on", f">{_SECRET}", *_documented_rights())
    return "genguard"


def test_the_documented_rights_are_enough(user, proxy):
    flag = f"--store=valkey://{user}:{_SECRET}@127.0.0.1:{proxy.port}/0"
    with Replica(flag) as one, Replica(flag) as other:
        wait_until(lambda: one.has_store and other.has_store, what="store asked")
        one.ask("intent", "acl", {"observedGeneration": 5})
        other.must_restore("acl", 5)
        for replica in (one, other):
            assert not replica.log_lines("store lost")
            assert _SECRET not in (replica.folder / "genguard.log").read_text()


def test_other_keys_are_none_of_its_business(user, proxy):
    flag = f"--store=valkey://{user}:{_SECRET}@127.0.0.1:{proxy.port}/0?prefix=another:"
    with Replica(flag) as replica:
        wait_until(lambda: replica.log_lines("store lost"), what="told")
        assert "ACL" in replica.log_lines("store lost")[0]["reason"]


def test_a_password_in_a_file_is_read_anew(user, proxy, tmp_path):
    file = tmp_path / "password"
    file.write_text("the one of yesterday\n")
    at = f"{user}@127.0.0.1:{proxy.port}/0?password-file={file}"
    with Replica(f"--store=valkey://{at}") as replica:
        wait_until(lambda: replica.log_lines("store lost"), what="told")
        assert replica.log_lines("store lost")[0]["reason"] == "user or password refused"
        file.write_text(f"{_SECRET}\n")
        wait_until(lambda: replica.has_store, what="store asked")


def test_tls_trusts_the_given_authority_alone(store, tmp_path):
    for name in ("right", "wrong"):
        certs.ensure(tmp_path / name, names=("localhost",), at=datetime.now(UTC))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "right" / "tls.crt", tmp_path / "right" / "tls.key")
    with Proxy(store.socket, context) as proxy:
        at = f"--store=valkeys://localhost:{proxy.port}/0?cafile={tmp_path}"
        with Replica(f"{at}/right/ca.crt") as trusting, Replica(f"{at}/wrong/ca.crt") as doubting:
            wait_until(lambda: trusting.has_store, what="store asked")
            wait_until(lambda: doubting.log_lines("store lost"), what="told")
            assert "TLS failed" in doubting.log_lines("store lost")[0]["reason"]

"""`--store`: what is taken, and what is refused with a word about what to do."""

from pathlib import Path

import pytest

from tests.cases_loader import Case, table
from webhook.store.address import BadStoreError, ValkeyAddress, parse_store

SECRET = "hunter2"  # noqa: S105


@table("store/addresses.yaml", "text", "is", "advice")
def test_a_store_is_read_or_refused_with_advice(case: Case) -> None:
    if "advice" in case.values:
        with pytest.raises(BadStoreError, match=case["advice"]) as refused:
            parse_store(case["text"])
        assert str(refused.value).startswith("--store"), case.because
        assert SECRET not in str(refused.value), case.because
        return
    wanted = case["is"]
    if wanted is not None:
        wanted = ValkeyAddress(**wanted) if isinstance(wanted, dict) else Path(wanted)
    assert parse_store(case["text"]) == wanted, case.because


def test_files_are_named_in_the_query():
    read = parse_store("valkeys://me@cache?cafile=/a/ca.crt&password-file=/a/password")
    assert isinstance(read, ValkeyAddress)
    assert (read.user, read.password) == ("me", None)
    assert (read.cafile, read.password_file) == (Path("/a/ca.crt"), Path("/a/password"))


def test_a_password_is_shown_nowhere():
    address = parse_store(f"valkeys://me:{SECRET}@cache/1")
    assert str(address) == "valkeys://cache:6379/1"
    assert SECRET not in repr(address)

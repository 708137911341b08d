"""`--store`: what is taken, and what is refused with a word about what to do."""

from pathlib import Path

import pytest

from webhook.store.address import (
    BadStoreError,
    ValkeyAddress,
    parse_store,
)

SECRET = "hunter2"  # noqa: S105


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("memory", None),
        ("sqlite:state.db", Path("state.db")),
        ("sqlite:/var/lib/genguard/state.db", Path("/var/lib/genguard/state.db")),
        ("valkey://cache", ValkeyAddress("cache", 6379)),
        ("redis://cache:7000/2", ValkeyAddress("cache", 7000, 2)),
        ("valkeys://cache", ValkeyAddress("cache", 6379, tls=True)),
        ("rediss://[::1]:7000/", ValkeyAddress("::1", 7000, tls=True)),
        ("valkey://cache/0?prefix=blue:", ValkeyAddress("cache", 6379, prefix="blue:")),
        (f"valkey://:{SECRET}@cache", ValkeyAddress("cache", 6379, password=SECRET)),
        (
            "valkey://u%40x:hunter%2F2@cache",
            ValkeyAddress("cache", 6379, user="u@x", password=f"{SECRET[:-1]}/2"),
        ),
    ],
)
def test_a_store_is_read(text, address):
    assert parse_store(text) == address


def test_files_are_named_in_the_query():
    read = parse_store("valkeys://me@cache?cafile=/a/ca.crt&password-file=/a/password")
    assert isinstance(read, ValkeyAddress)
    assert (read.user, read.password) == ("me", None)
    assert (read.cafile, read.password_file) == (Path("/a/ca.crt"), Path("/a/password"))


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("", "give memory"),
        ("disk", "give memory, sqlite:PATH or valkey://"),
        ("sqlite:", "takes a path"),
        ("sqlite://state.db", "takes a path"),
        ("valkey:cache", "give memory"),
        ("http://cache", "give memory"),
        ("valkey://", "host is missing"),
        (f"valkey://:{SECRET}@", "host is missing"),
        ("valkey://cache:port", "host, port"),
        ("valkey://cache:70000", "host, port"),
        (f"valkey://:{SECRET}/more@cache", "as %XX"),
        (f"valkey://:{SECRET}#more@cache", "as %XX|host is missing|%23"),
        (f"valkey://:a?{SECRET}@cache", "host, port|host is missing|unknown parameter"),
        (f"valkey://cache?{SECRET}=1", "unknown .* cafile, password-file, prefix"),
        ("valkey://cache/first", "number of a database"),
        ("valkey://me@cache", "needs a password"),
        ("valkey://cache?cafile=/etc/hosts", "write valkeys://"),
        (f"valkey://:{SECRET}@cache?password-file=/etc/hosts", "not both"),
    ],
)
def test_what_cannot_be_a_store_is_refused(text, advice):
    with pytest.raises(BadStoreError, match=advice) as refused:
        parse_store(text)
    assert str(refused.value).startswith("--store")
    assert SECRET not in str(refused.value)


def test_a_password_is_shown_nowhere():
    address = parse_store(f"valkeys://me:{SECRET}@cache/1")
    assert str(address) == "valkeys://cache:6379/1"
    assert SECRET not in repr(address)

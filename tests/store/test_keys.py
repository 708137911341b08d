"""Replicas with a key believe each other alone: not the store, nor replicas without it."""

import secrets
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import msgspec
import pytest

from genguard.objects.intended import Intended
from genguard.objects.observed import Observed
from tests.controlplane.client import wait_until
from tests.store.loop import Loop, findings
from tests.store.proxy import Proxy
from tests.store.replica import Replica
from tests.store.server import StoreServer
from webhook.store.seal import KeyFile
from webhook.store.shared_writes import LARGEST_VALUE
from webhook.store.stream import Facts

OLD, NEW = "o" * 32, "n" * 32


class Site:
    """Replicas on one store, under a prefix of their own."""

    def __init__(self, proxy: Proxy, folder: Path, stack: ExitStack) -> None:
        self.prefix = f"genguard:{secrets.token_hex(4)}:"
        self._at = f"valkey://127.0.0.1:{proxy.port}/0?prefix={self.prefix}"
        self._folder = folder
        self._stack = stack

    def replica(self, name: str = "", *keys: str, wait: bool = True) -> Replica:
        """With the keys in a file of this name; without a name it has none."""
        if keys:
            (self._folder / name).write_text("\n".join(keys))
        flag = f"--store={self._at}" + (f"&key-file={self._folder}/{name}" if name else "")
        found = self._stack.enter_context(Replica(flag))
        if wait:
            wait_until(lambda: found.has_store, what="store asked")
        return found


@pytest.fixture
def site(proxy: Proxy, tmp_path: Path) -> Iterator[Site]:
    with ExitStack() as stack:
        yield Site(proxy, tmp_path, stack)


def dropped(replica: Replica, reason: str) -> float:
    return replica.metric("genguard_store_dropped_total", reason=reason)


def drops(replica: Replica, name: str, reason: str) -> None:
    """Asked until it has read what is there: on a busy machine even a good store is late."""

    def has_read() -> bool:
        assert replica.restores(name) is None
        return dropped(replica, reason) > 0

    wait_until(has_read, what="dropped and counted")


def facts(replica: Replica, result: str) -> float:
    return replica.metric("genguard_store_facts_total", result=result)


def names(store: StoreServer, site: Site) -> list[bytes]:
    """The writes that are on their way."""
    return store.run("KEYS", f"{site.prefix}w1:*")


def test_with_one_key_replicas_share_and_the_store_sees_no_name(
    site: Site, store: StoreServer
) -> None:
    one, other = site.replica("key", OLD), site.replica("key")
    one.ask("intent", "telling-name", {"observedGeneration": 5})
    other.must_restore("telling-name", 5)
    loop = Loop()
    loop.spread((one, other), lambda: findings(one) and findings(other), "found by both")
    wait_until(lambda: findings(one).keys() == findings(other).keys(), what="the same shown")
    kept = repr(store.run("XRANGE", f"{site.prefix}facts1", "-", "+"))
    kept += repr([store.run("HGETALL", name) for name in names(store, site)])
    for word in ("telling-name", "deployments", "observedGeneration", "restore-intent"):
        assert word not in kept
    assert [facts(each, "unsealed") for each in (one, other)] == [0, 0]
    assert not one.log_lines("what replicas share is not sealed")


def test_what_a_stranger_writes_is_neither_put_back_nor_judged_but_counted(
    site: Site, store: StoreServer
) -> None:
    one, other = site.replica("key", OLD), site.replica("key")
    one.ask("intent", "victim", {"observedGeneration": 5})
    one.published(1)
    (name,) = names(store, site)
    forged = msgspec.msgpack.encode(Intended(Observed(7, ()), ((("spec",), b"{}"),)))
    told = msgspec.msgpack.encode({"restore-intent": "x" * 100_000})
    store.run("HSET", name, "i", forged, "t", told)
    drops(other, "victim", "unsealed")
    one.ask("intent", "huge", {"observedGeneration": 5})
    one.published(2)
    (name,) = set(names(store, site)) - {name}
    store.run("HSET", name, "i", b"x" * (LARGEST_VALUE + 1))
    drops(other, "huge", "unreadable")
    message = msgspec.msgpack.encode(Facts(b"stranger", 1, (b"fact",)))
    store.run("XADD", f"{site.prefix}facts1", "*", "m", message)
    wait_until(lambda: facts(one, "unsealed") + facts(other, "unsealed"), what="counted")
    assert one.log_lines("value of the store refused")
    assert one.has_store
    assert other.has_store


def test_without_a_key_what_is_forged_is_held_to_what_this_server_restores(
    site: Site, store: StoreServer
) -> None:
    one, other = site.replica(), site.replica()
    assert one.log_lines("what replicas share is not sealed")
    one.ask("intent", "victim", {"observedGeneration": 5})
    one.published(1)
    (name,) = names(store, site)
    fields = ((("spec", "containers"), b"[]"), (("metadata", "finalizers"), b'["x"]'))
    store.run("HSET", name, "i", msgspec.msgpack.encode((("text", ()), fields)))
    drops(other, "victim", "unfit")


def test_a_key_that_is_not_there_yet_is_waited_for_and_the_log_says_what_to_do(
    site: Site, tmp_path: Path
) -> None:
    """As in pods of this version with the Secret of the version before, which had no key."""
    one, other = site.replica("late", wait=False), site.replica("late", wait=False)
    wait_until(lambda: one.log_lines("store lost"), what="told")
    (lost, *_) = one.log_lines("store lost")
    assert "the key-file cannot be read" in lost["reason"]
    assert "genguard install --ha" in lost["reason"]
    one.ask("intent", "a", {"observedGeneration": 5})
    assert one.restores("a") == 5, "each goes by its own memory"
    assert not other.has_store
    (tmp_path / "late").write_text(OLD)
    wait_until(lambda: one.has_store and other.has_store, what="store asked")
    one.ask("intent", "b", {"observedGeneration": 6})
    other.must_restore("b", 6)


def test_a_key_is_renewed_in_steps_and_no_fact_is_refused_meanwhile(
    site: Site, tmp_path: Path
) -> None:
    one, other = site.replica("one", OLD), site.replica("other", OLD)
    loop = Loop()
    # As docs/replicas.md says; files of pods change at different times.
    for step in ((OLD, NEW), (NEW, OLD), (NEW,)):
        for replica, name in ((one, "one"), (other, "other")):
            before = len(replica.log_lines("keys of the store read"))
            (tmp_path / name).write_text("\n".join(step))
            wait_until(
                lambda r=replica, b=before: len(r.log_lines("keys of the store read")) > b,
                what="the new keys read",
            )
            read = facts(one, "read") + facts(other, "read")
            loop.spread(
                (one, other),
                lambda r=read: facts(one, "read") + facts(other, "read") > r + 10,
                "facts of both read by the leader",
            )
    assert [facts(each, "unsealed") for each in (one, other)] == [0, 0]
    one.ask("intent", "renewed", {"observedGeneration": 5})
    other.must_restore("renewed", 5)


def test_replicas_of_this_version_and_of_the_one_before_drop_what_the_other_shares(
    site: Site,
) -> None:
    """Without a key a replica writes and reads what the version before did."""
    new, old = site.replica("key", OLD), site.replica()
    loop = Loop()
    loop.spread(
        (new, old),
        lambda: facts(old, "unreadable") + facts(new, "unsealed"),
        "dropped by the one that leads",
    )
    for sender, receiver, reason in ((new, old, "unreadable"), (old, new, "unsealed")):
        sender.ask("intent", f"sent-{reason}", {"observedGeneration": 5})
        sender.published(1)
        assert receiver.restores(f"sent-{reason}") is None
        assert sender.restores(f"sent-{reason}") == 5
    for replica in (new, old):
        assert replica.has_store
        assert replica.is_sharing


async def test_the_key_file_of_a_secret_is_taken_with_its_last_line_break(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text(f"{OLD}\n")
    with_break, without = KeyFile(file), KeyFile(file)
    await with_break.read()
    file.write_text(OLD)
    await without.read()
    assert with_break.seal.names == without.seal.names

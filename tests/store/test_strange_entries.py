"""Genguard's names in a store hold what no replica of this version and key has written there."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import NamedTuple

import msgspec
import pytest

from tests.controlplane.client import wait_until
from tests.store.loop import Loop, findings
from tests.store.patient import SELDOM_SLOW
from tests.store.proxy import Proxy
from tests.store.replica import Replica
from tests.store.server import StoreServer
from webhook.store.snapshot import PARTS

PREFIX = "genguard:"
LIST = None
DEEP = b"\x91" * 100_000


def packed(*parts: object) -> bytes:
    return msgspec.msgpack.encode(parts)


STRANGE: dict[str, tuple[tuple[str, ...], bytes | None]] = {
    "of another type": (("found2", "leader"), LIST),
    "no MessagePack": (("facts1", "found2", "leader"), b"\xc1"),
    "empty": (("facts1", "found2", "leader"), b""),
    "sealed by another key": (("facts1", "found2"), b"\xc1" + b"s" * 64),
    "nested without an end": (("facts1", "found2"), DEEP),
    "of a version with one field more": (
        ("facts1",),
        packed("facts1", b"other", 1, [b"a fact"], "more"),
    ),
    "a message of which a part is nested without an end": (
        ("facts1",),
        b"\x95" + packed("facts1", b"other", 1, [b"a fact"])[1:] + DEEP,
    ),
    "a head whose message is none": (("found2",), packed("head2", b"no id", {}, [0] * PARTS)),
    "a head of the far future": (
        ("found2",),
        packed("head2", b"99999999999999-0", {b"other": 2**62}, [0] * PARTS),
    ),
    "a head of parts that are not there": (("found2",), packed("head2", b"1-1", {}, [7] * PARTS)),
    "a head of no parts": (("found2",), packed("head2", b"1-1", {}, [])),
}


class Site(NamedTuple):
    store: StoreServer
    proxy: Proxy
    replicas: tuple[Replica, Replica]

    def plant(self, key: str, value: bytes | None) -> None:
        name = PREFIX + key
        if key == "facts1":
            self.store.run("XADD", name, "*", "m", value)
            return
        self.store.run("DEL", name)
        if value is LIST:
            self.store.run("RPUSH", name, "of another program")
        else:
            self.store.run("SET", name, value)

    def wait(self, true: Callable[[Replica], object], what: str) -> None:
        wait_until(lambda: all(map(true, self.replicas)), what=what)


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with ExitStack() as stack:
        store = stack.enter_context(StoreServer())
        proxy = stack.enter_context(Proxy(store.socket))
        flag = f"--store=valkey://127.0.0.1:{proxy.port}/0?prefix={PREFIX}"
        one, other = (stack.enter_context(Replica(flag, within=SELDOM_SLOW)) for _ in range(2))
        yield Site(store, proxy, (one, other))


def is_shared(replica: Replica) -> bool:
    return replica.has_store and replica.is_sharing


def _read(site: Site) -> float:
    return sum(one.metric("genguard_store_facts_total", result="read") for one in site.replicas)


@pytest.mark.parametrize("what", STRANGE)
def test_what_is_strange_is_passed_over_or_replaced_and_replicas_share_on(
    site: Site, what: str
) -> None:
    """Connected anew, so that each of them reads it."""
    keys, value = STRANGE[what]
    site.wait(is_shared, "shared")
    site.proxy.close()
    site.wait(lambda one: not is_shared(one), "lost")
    for key in keys:
        site.plant(key, value)
    site.proxy.open()
    site.wait(is_shared, "shared again")
    one, other = site.replicas
    read = _read(site)
    Loop().spread(
        site.replicas,
        lambda: _read(site) > read and all(map(findings, site.replicas)),
        "judged, and shown by both",
    )
    name = f"sent while {what}"
    one.ask("intent", name, {"observedGeneration": 5})
    other.must_restore(name, 5)
    for each in site.replicas:
        assert each.log_lines("task failed") == []


def _said(replica: Replica) -> int:
    lines = [*replica.log_lines("findings not shared"), *replica.log_lines("store lost")]
    return sum("another program uses names of genguard's" in one["reason"] for one in lines)


def _judges_alone(replica: Replica) -> bool:
    """The leader judges what it sees itself."""
    return replica.metric("genguard_store_facts_total", result="alone") > 0


@pytest.mark.parametrize("key", ["facts1", "probe:stream"])
def test_what_another_program_holds_is_left_alone_and_said_until_it_is_gone(
    site: Site, key: str
) -> None:
    """A stream that is a list can be neither read nor replaced without a loss for its owner."""
    site.wait(is_shared, "shared")
    site.proxy.close()
    site.wait(lambda one: not is_shared(one), "lost")
    said = sum(map(_said, site.replicas))
    site.store.run("DEL", PREFIX + key)
    site.store.run("RPUSH", PREFIX + key, "of another program")
    site.proxy.open()
    wait_until(lambda: sum(map(_said, site.replicas)) > said, what="said")
    Loop().spread(site.replicas, lambda: any(map(_judges_alone, site.replicas)), "judged alone")
    assert site.store.run("LRANGE", PREFIX + key, 0, -1) == [b"of another program"]
    site.store.run("DEL", PREFIX + key)
    site.wait(is_shared, "shared again")
    for each in site.replicas:
        assert each.log_lines("task failed") == []

"""A store that is lost, slow, full or locked fails no admission, and none waits for it twice."""

import itertools
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from tests.controlplane.client import wait_until
from tests.store.loop import Loop, findings
from tests.store.proxy import Proxy
from tests.store.replica import Replica
from tests.store.server import StoreServer

_CLIENTS = 4
_PASSWORD = "changed-by-somebody"  # noqa: S105


def _stop(store: StoreServer, _: Proxy) -> None:
    store.kill()


def _start(store: StoreServer, _: Proxy) -> None:
    store.start()


def _slow(_: StoreServer, proxy: Proxy) -> None:
    proxy.delay = 1.0


def _quick(_: StoreServer, proxy: Proxy) -> None:
    proxy.delay = 0.0


def _hang(_: StoreServer, proxy: Proxy) -> None:
    proxy.delay = 3600.0


def _fill(store: StoreServer, _: Proxy) -> None:
    store.run("CONFIG", "SET", "maxmemory", 1)


def _empty(store: StoreServer, _: Proxy) -> None:
    store.run("CONFIG", "SET", "maxmemory", 0)


def _lock(store: StoreServer, proxy: Proxy) -> None:
    store.run("CONFIG", "SET", "requirepass", _PASSWORD)
    proxy.drop()


def _unlock(store: StoreServer, _: Proxy) -> None:
    store.run("CONFIG", "SET", "requirepass", "", password=_PASSWORD)


def _unreachable(_: StoreServer, proxy: Proxy) -> None:
    proxy.close()


def _reachable(_: StoreServer, proxy: Proxy) -> None:
    proxy.open()


class Traffic:
    """Clients that write status without a pause: to /intent of one, to /mutate of the other."""

    def __init__(self, replicas: tuple[Replica, Replica]) -> None:
        self._replicas = replicas
        self._stop = threading.Event()
        self.answered = 0

    @contextmanager
    def running(self) -> Iterator["Traffic"]:
        with ThreadPoolExecutor(_CLIENTS) as clients:
            work = [clients.submit(self._write, str(number)) for number in range(_CLIENTS)]
            try:
                yield self
            finally:
                self._stop.set()
        for one in work:
            one.result()  # raises what the client met: an admission that failed or took too long

    def more(self, writes: int = 40) -> None:
        """Wait for so many more writes."""
        target = self.answered + writes
        wait_until(lambda: self.answered >= target, what="writes answered")

    def _write(self, client: str) -> None:
        one, other = self._replicas
        number = 0
        while not self._stop.is_set():
            name = f"traffic-{client}-{number}"
            one.ask("intent", name, {"observedGeneration": 5})
            other.restores(name)
            number += 1
            self.answered += 1


def _reasons(replica: Replica) -> list[str]:
    return [line["reason"] for line in replica.log_lines("store lost")]


def _wait_for_store(replicas: tuple[Replica, Replica]) -> None:
    wait_until(lambda: all(one.has_store for one in replicas), what="up")


Step = Callable[[StoreServer, Proxy], None]
TROUBLES: dict[str, tuple[Step, Step, str]] = {
    "stopped and restarted": (_stop, _start, "not connected"),
    "slowed by a second": (_slow, _quick, "no answer"),
    "hanging": (_hang, _quick, "no answer"),
    "full": (_fill, _empty, "the store is full"),
    "locked by another password": (_lock, _unlock, "user or password refused"),
    "cut off": (_unreachable, _reachable, "not connected"),
}


@pytest.mark.parametrize("trouble", TROUBLES)
def test_no_admission_fails_and_the_store_comes_back(
    store: StoreServer,
    proxy: Proxy,
    replicas: tuple[Replica, Replica],
    trouble: str,
):
    begin, end, reason = TROUBLES[trouble]
    _, other = replicas
    _wait_for_store(replicas)
    told = [len(_reasons(replica)) for replica in replicas]
    with Traffic(replicas).running() as traffic:
        traffic.more()
        waited = other.asked("fetch", "timeout", "lost")
        begin(store, proxy)
        try:
            for replica, before in zip(replicas, told, strict=True):
                wait_until(
                    # Late first, where the machine is slower than the store is lost.
                    lambda r=replica, b=before: (
                        any(one.startswith((reason, "no answer")) for one in _reasons(r)[b:])
                        and not r.has_store
                    ),
                    what=reason,
                )
            skipped = other.asked("fetch", "skipped")
            traffic.more()
            # Each client waited for the store once, before it was given up, or once more for a
            # store that had seemed to be back. All others did not ask it.
            asked = other.asked("fetch", "timeout", "lost") - waited
            assert other.asked("fetch", "skipped") - skipped > asked - 2 * _CLIENTS
        finally:
            end(store, proxy)
        _wait_for_store(replicas)
        traffic.more()
    one = replicas[0]
    names = (f"after-{trouble}-{number}" for number in itertools.count())

    def shared() -> bool:
        name = next(names)
        one.ask("intent", name, {"observedGeneration": 7})
        return other.restores(name) == 7

    wait_until(shared, what="intents shared")


def _is_shared(replica: Replica) -> bool:
    return replica.has_store and replica.is_sharing


def test_while_the_store_comes_and_goes_no_admission_fails_and_a_loop_is_found_by_both(
    proxy: Proxy, replicas: tuple[Replica, Replica]
) -> None:
    """Each time before anybody can say for certain that it is there, or that it is lost."""
    _wait_for_store(replicas)
    loop, over = Loop(), threading.Event()

    def flap() -> None:
        while not over.wait(0.3):
            proxy.close()
            over.wait(0.3)  # meant: nobody is let in for so long
            proxy.open()

    with Traffic(replicas).running() as traffic, ThreadPoolExecutor(1) as flapping:
        work = flapping.submit(flap)
        try:
            traffic.more(200)
            loop.spread(replicas, lambda: any(map(_is_found, replicas)), "found by one of them")
        finally:
            over.set()
            work.result()
            proxy.open()
        wait_until(lambda: all(map(_is_shared, replicas)), what="shared")
        loop.spread(replicas, lambda: all(map(_is_found, replicas)), "found by both")
    for replica in replicas:
        assert replica.log_lines("task failed") == []


def _is_found(replica: Replica) -> bool:
    """Whether the loop is found."""
    return any(one["state"] != "resolved" for one in findings(replica).values())


@pytest.mark.parametrize("trouble", ["slowed by a second", "full"])
def test_a_loop_is_found_while_the_store_is(store: StoreServer, proxy: Proxy, trouble: str) -> None:
    begin, end, _ = TROUBLES[trouble]
    flag = f"--store=valkey://127.0.0.1:{proxy.port}/0?prefix=genguard:alone:"
    with Replica(flag) as one:
        wait_until(lambda: _is_shared(one), what="shared")
        begin(store, proxy)
        try:
            wait_until(lambda: not one.has_store, what="lost")
            Loop().until(one, lambda: _is_found(one), "found")
        finally:
            end(store, proxy)
        wait_until(lambda: _is_shared(one), what="shared again")
        assert _is_found(one)
        assert one.log_lines("task failed") == []


def test_an_answer_does_not_wait_for_a_slow_store(proxy, replicas):
    """Not by the clock: the store's answer is still held back when the admission is answered."""
    other = replicas[1]
    _wait_for_store(replicas)
    proxy.delay = 3600.0
    try:
        released = proxy.let_through()
        assert other.restores("held-back") is None
        assert proxy.released == released
    finally:
        proxy.delay = 0.0
        _wait_for_store(replicas)


def test_without_its_store_a_replica_restores_what_it_was_sent_itself(proxy, replicas):
    one, _ = replicas
    _wait_for_store(replicas)
    proxy.close()
    try:
        wait_until(lambda: not one.has_store, what="store lost")
        one.ask("intent", "on-my-own", {"observedGeneration": 5})
        assert one.restores("on-my-own") == 5
    finally:
        proxy.open()
        _wait_for_store(replicas)


def test_a_server_comes_up_without_its_store():
    with Replica("--store=valkey://127.0.0.1:1/0") as alone:
        assert alone.ops("/readyz")[0] == 200
        alone.ask("intent", "alone", {"observedGeneration": 5})
        assert alone.restores("alone") == 5
        wait_until(lambda: _reasons(alone) == ["not connected"], what="told")

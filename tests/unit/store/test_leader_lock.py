"""Leadership by a key: as the store says, and everybody's when the store says nothing."""

from webhook.store.circuit_breaker import StoreLostError
from webhook.store.leader_lock import LEAD_SECONDS, LOCK_SECONDS, LeaderLock


class FakeStore:
    """Keeps one key for as long as it is good."""

    def __init__(self) -> None:
        self.now = 0.0
        self.holder: tuple[bytes, float] | None = None
        self.lost = False

    async def ask(self, operation, command):
        if self.lost:
            raise StoreLostError("gone")
        token = command[4]
        free = self.holder is None or self.holder[1] <= self.now
        if len(command) == 5:
            if not free and self.holder[0] == token:
                self.holder = None
            return None
        if not free and self.holder[0] != token:
            return 0
        self.holder = (token, self.now + command[5] / 1000)
        return 1


def replicas(store: FakeStore, count: int = 2) -> list[LeaderLock]:
    return [LeaderLock(store, "p:", bytes([number]), lambda: store.now) for number in range(count)]


async def test_one_leads_until_it_is_gone():
    store = FakeStore()
    one, other = replicas(store)
    for _ in range(10):
        await one.tick()
        await other.tick()
        assert (one.is_leader, other.is_leader) == (True, False)
        store.now += 2.0
    last = store.now - 2.0
    store.now = last + LOCK_SECONDS + 2.0
    await other.tick()
    assert other.is_leader
    assert other.vacant_since == last


async def test_what_is_given_back_is_taken_at_the_next_tick():
    store = FakeStore()
    one, other = replicas(store)
    await one.tick()
    await one.release()
    await other.tick()
    assert (one.is_leader, other.is_leader) == (False, True)


async def test_a_leader_that_is_not_confirmed_stops_before_the_key_expires():
    store = FakeStore()
    one, _ = replicas(store)
    await one.tick()
    store.now += LEAD_SECONDS
    assert not one.is_leader


async def test_when_nobody_can_know_everybody_leads():
    store = FakeStore()
    one, other = replicas(store)
    await one.tick()
    await other.tick()
    store.lost = True
    store.now += LOCK_SECONDS
    await one.tick()
    await other.tick()
    assert one.is_leader
    assert other.is_leader
    store.lost = False
    await one.tick()
    await other.tick()
    assert (one.is_leader, other.is_leader) == (True, False)

"""One speaks for all, and whoever takes over tells what the last one may not have told."""

from tests.unit.alerts.findings import change
from webhook.alerts.change import Change, Transition
from webhook.alerts.pipeline import KEPT_SECONDS, QueuedSink


class Ballot:
    is_leader = False
    vacant_since = float("-inf")


class Told:
    """A Sink that keeps what it is told."""

    def __init__(self) -> None:
        self.calls: list[tuple[Change, ...]] = []

    async def tell(self, changes, findings) -> None:
        self.calls.append(changes)


class Replica:
    def __init__(self) -> None:
        self.now, self.ballot, self.told = 100.0, Ballot(), Told()
        self.sink = QueuedSink("log", self.told.tell, self.ballot, lambda: self.now)

    async def look(self, *changes: Change) -> None:
        self.sink.put(changes, tuple(one.finding for one in changes))
        await self.sink.tell()
        self.now += 1.0


OPENED = change(Transition.OPENED)
RESOLVED = change(Transition.RESOLVED, id="another")


async def test_a_new_leader_tells_what_turned_since_the_last_one_was_there():
    replica = Replica()
    await replica.look(OPENED)  # the leader has told that
    replica.ballot.vacant_since = replica.now
    await replica.look(RESOLVED)  # and was gone by then
    replica.ballot.is_leader = True
    await replica.look(OPENED)
    await replica.look()
    assert replica.told.calls == [(RESOLVED, OPENED), ()]


async def test_what_turned_long_ago_is_no_news():
    replica = Replica()
    await replica.look(OPENED)
    replica.now += KEPT_SECONDS
    await replica.look()
    replica.ballot.is_leader = True
    await replica.look()
    assert replica.told.calls == [()]

"""What alerts is of objects that are there; what nobody could look up says so."""

import asyncio

from msgspec import structs

from genguard.detection.finding import FoundObject
from tests.unit.alerts.findings import change, on
from tests.unit.alerts.test_leader import Told
from webhook.alerts import pipeline as module
from webhook.alerts.change import Change, Transition
from webhook.alerts.pipeline import (
    AGAIN_SECONDS,
    MOST_LOOKUPS,
    UNVERIFIED,
    WINDOW_SECONDS,
    Verification,
)
from webhook.tasks.supervisor import Supervisor


class Api:
    """Objects that are there, and what is asked."""

    def __init__(self, exists: bool | None = True) -> None:
        self.exists, self.asked, self.now = exists, [], 100.0
        self.told = Told()
        self.verification = Verification(self.look, Supervisor(), lambda: self.now)
        self.sink = self.verification.before(self.told.tell)

    async def look(self, thing: FoundObject) -> bool | None:
        self.asked.append(thing)
        return self.exists

    async def tell(self, *changes: Change) -> tuple[Change, ...]:
        await self.sink(changes, tuple(one.finding for one in changes))
        return self.told.calls[-1]


OPENED, RESOLVED = change(Transition.OPENED), change(Transition.RESOLVED)


async def test_one_of_an_object_that_never_was_alerts_neither_when_it_opens_nor_when_it_ends():
    api = Api(exists=False)
    assert await api.tell(OPENED) == ()
    assert await api.tell(RESOLVED) == ()


async def test_one_that_could_not_be_looked_up_says_so():
    api = Api(exists=None)
    ((turn, told),) = await api.tell(OPENED)
    assert turn is Transition.OPENED
    assert told.message == UNVERIFIED + OPENED.finding.message
    assert told.id == OPENED.finding.id


async def test_what_comes_and_goes_is_not_looked_up():
    api = Api(exists=False)
    where = structs.replace(OPENED.finding.object, uid="")
    opened = OPENED._replace(finding=structs.replace(OPENED.finding, object=where))
    ((_, told),) = await api.tell(opened)
    assert told.message == UNVERIFIED + opened.finding.message
    assert api.asked == []


async def test_what_was_told_is_told_to_be_over_though_its_object_is_gone_by_then():
    api = Api()
    await api.tell(OPENED)
    api.exists = False
    assert await api.tell(RESOLVED) == (RESOLVED,)


async def test_an_object_that_is_there_is_looked_up_once_and_one_that_is_not_after_a_while():
    for exists, times in ((True, 1), (False, 2), (None, 2)):
        api = Api(exists)
        for _ in range(3):
            await api.tell(OPENED)
            api.now += AGAIN_SECONDS / 2
        assert len(api.asked) == times


async def test_a_flood_of_forged_findings_asks_for_no_more_than_a_few_and_the_rest_are_marked():
    api = Api(exists=False)
    flood = [
        change(Transition.OPENED, id=str(n), object=on(f"o{n}")) for n in range(MOST_LOOKUPS + 5)
    ]
    told = await api.tell(*flood)
    assert len(api.asked) == MOST_LOOKUPS
    assert [one.finding.id for one in told] == [str(MOST_LOOKUPS + n) for n in range(5)]
    assert all(one.finding.message.startswith(UNVERIFIED) for one in told)
    api.now += WINDOW_SECONDS
    assert await api.tell(*flood) == ()  # by now it is known of all of them


async def test_an_api_that_hangs_holds_alerts_up_once(monkeypatch):
    monkeypatch.setattr(module, "_SECONDS", 0.01)
    api = Api()
    asked = []

    async def hang(thing: FoundObject) -> bool:
        asked.append(thing)
        await asyncio.Event().wait()
        return True

    api.sink = Verification(hang, Supervisor(), lambda: api.now).before(api.told.tell)
    flood = [change(Transition.OPENED, id=str(n), object=on(f"o{n}")) for n in range(9)]
    assert len(await api.tell(*flood)) == 9
    assert len(asked) == 1

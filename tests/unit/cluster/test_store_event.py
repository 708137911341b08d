"""The store's loss and return as Events about this server."""

from tests.unit.alerts.findings import Clock
from webhook.cluster.event import StoreEvents

POD = {"apiVersion": "v1", "kind": "Pod", "namespace": "genguard-system", "name": "genguard-0"}


async def test_loss_and_return_are_one_event_each():
    events = []

    async def create(namespace, event):
        events.append((namespace, event))

    sink = StoreEvents(create, POD, Clock())
    await sink.tell(False, "the store is full")
    await sink.tell(True, "")
    assert [namespace for namespace, _ in events] == ["genguard-system"] * 2
    (_, lost), (_, back) = events
    assert lost["regarding"] == back["regarding"] == POD
    assert (lost["type"], lost["reason"]) == ("Warning", "StoreLost")
    assert (back["type"], back["reason"]) == ("Normal", "StoreBack")
    assert lost["note"] == (
        "The shared store is lost: the store is full. Each replica goes by its own memory."
    )
    assert {"eventTime", "action", "reportingController", "reportingInstance"} <= lost.keys()


async def test_an_event_that_cannot_be_made_is_nobody_elses_trouble(caplog):
    async def create(namespace, event):
        raise OSError("the API server is away, secret included")

    await StoreEvents(create, POD).tell(False, "not connected")
    assert [record.message for record in caplog.records] == ["event not created"]
    assert "secret" not in str(caplog.records[0].__dict__["facts"])

"""Events are created where the API server keeps those of a namespace."""

from typing import Any

from webhook.cluster.stored_objects import event_creator


class Api:
    def __init__(self) -> None:
        self.calls: list[tuple[str, str, Any]] = []

    async def call(self, method: str, path: str, body: Any) -> None:
        self.calls.append((method, path, body))


async def test_an_event_is_posted_to_its_namespace_as_it_is():
    api, event = Api(), {"kind": "Event", "note": "told"}
    await event_creator(api)("shop", event)
    assert api.calls == [("POST", "/apis/events.k8s.io/v1/namespaces/shop/events", event)]


async def test_a_namespace_that_is_no_name_leads_nowhere_else():
    api = Api()
    await event_creator(api)("../../pods", {})
    assert api.calls[0][1] == "/apis/events.k8s.io/v1/namespaces/..%2F..%2Fpods/events"

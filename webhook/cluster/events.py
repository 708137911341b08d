"""Creates Kubernetes Events through a connection."""

from typing import Any, Final
from urllib.parse import quote

from webhook.alerts.event import CreateEvent
from webhook.cluster.rest import Rest

_EVENTS: Final = "/apis/events.k8s.io/v1/namespaces/{}/events"


def event_creator(rest: Rest) -> CreateEvent:
    """What alerts.kube_event asks for: create an events.k8s.io/v1 Event in a namespace."""

    async def create(namespace: str, event: dict[str, Any]) -> None:
        await rest.call("POST", _EVENTS.format(quote(namespace, safe="")), event)

    return create

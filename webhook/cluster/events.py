"""Creates Kubernetes Events through a connection."""

from collections.abc import Awaitable, Callable
from typing import Any

from kubernetes.aio import client


def event_creator(api: client.ApiClient) -> Callable[[str, dict[str, Any]], Awaitable[None]]:
    """What alerts.kube_event asks for: create an events.k8s.io/v1 Event in a namespace."""
    events = client.EventsV1Api(api)

    async def create(namespace: str, event: dict[str, Any]) -> None:
        body = client.EventsV1Event.from_dict(event)
        if body is not None:
            await events.create_namespaced_event(namespace, body)

    return create

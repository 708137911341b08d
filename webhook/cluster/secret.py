"""Follows one Secret: what it holds, now and at each change."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import msgspec

from webhook.cluster.rest import Rest
from webhook.cluster.rotating import decoded
from webhook.cluster.watched import Change, Collection, What, follow
from webhook.running import running
from webhook.telemetry.logs import LOGGER


@asynccontextmanager
async def follow_secret(
    rest: Rest, namespace: str, name: str, seen: Callable[[dict[str, bytes]], None]
) -> AsyncIterator[None]:
    """Tell `seen` while the context is entered; a Secret that is gone is told by nobody."""

    async def locate() -> str:
        return f"/api/v1/namespaces/{namespace}/secrets"

    def on_change(change: Change) -> None:
        if change.what is What.SEEN:
            whole = {key: msgspec.json.decode(raw) for key, raw in change.object.items()}
            seen(decoded(whole))

    def on_trouble(reason: str) -> None:
        facts = {"secret": f"{namespace}/{name}", "reason": reason}
        LOGGER.warning("certificate not watched", extra={"facts": facts})

    # By this selector the right to one Secret is enough: apiserver pkg/endpoints/request/
    # requestinfo.go takes the name from it.
    collection = Collection(rest, locate, fieldSelector=f"metadata.name={name}")
    async with running((follow(collection.changes, on_change, on_trouble),)):
        yield

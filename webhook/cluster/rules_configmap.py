"""Follows the ConfigMap of `serve --rules configmap:NAME`: rules in CEL for custom kinds."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

import msgspec

from webhook.cluster.rest import Rest
from webhook.cluster.watch import Change, ChangeKind, Collection, follow
from webhook.tasks.supervisor import Supervisor
from webhook.tasks.threads import in_thread
from webhook.telemetry.logs import LOGGER

Take = Callable[[Mapping[str, str] | None], None]
"""Uses the texts of a ConfigMap; None: it was deleted. It may block for seconds."""
_NOTHING: Final[dict[str, str]] = {}


@asynccontextmanager
async def follow_rules(
    rest: Rest, namespace: str, name: str, take: Take, supervisor: Supervisor
) -> AsyncIterator[None]:
    """Call `take` in a thread with each content of a ConfigMap while the context is entered.

    Contents that follow each other quickly are taken once, the last of them.
    """
    following = _Following(f"{namespace}/{name}", take)

    async def locate() -> str:
        return f"/api/v1/namespaces/{namespace}/configmaps"

    # By this selector the right to one ConfigMap is enough: apiserver pkg/endpoints/request/
    # requestinfo.go takes the name from it.
    collection = Collection(rest, locate, fieldSelector=f"metadata.name={name}")
    watch = {
        "watch of --rules": lambda: follow(
            collection.changes, following.on_change, following.on_trouble
        )
    }
    async with (
        supervisor.running(watch, on_failure=collection.forget_place),
        supervisor.running({"rules": following.run}, on_failure=following.take_again),
    ):
        yield


class _Following:
    def __init__(self, place: str, take: Take) -> None:
        self._place: Final = place
        self._take: Final = take
        self._wake: Final = asyncio.Event()
        self._latest: Mapping[str, str] | None = None
        self._is_there = False

    def on_change(self, change: Change) -> None:
        if change.what is ChangeKind.CAUGHT_UP:
            if not self._is_there:
                self.on_trouble("it does not exist")
            return
        self._is_there = change.what is ChangeKind.SEEN
        self._latest = _texts(change.object.get("data")) if self._is_there else None
        self._wake.set()

    def on_trouble(self, reason: str) -> None:
        facts = {"configMap": self._place, "reason": reason}
        LOGGER.warning("rules not followed", extra={"facts": facts})

    def take_again(self) -> None:
        """Take the latest content once more: the last attempt failed."""
        self._wake.set()

    async def run(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            await in_thread(self._take, self._latest)


def _texts(data: Any) -> Mapping[str, str]:
    """The texts of `data`, which the API server keeps texts alone in."""
    return _NOTHING if data is None else msgspec.json.decode(data, type=dict[str, str] | None) or {}

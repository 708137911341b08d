"""Registers a trace's observers, and removes them whatever happens.

Reads   every MutatingWebhookConfiguration that carries the label of a trace
Acts on none that lacks it
Result  when `remove` returns, none of this run's is left; else StillRegisteredError says how to
        remove them by hand
Relies  on the label: a creation whose answer was lost is found by it
"""

import asyncio
import time
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any, Final

from webhook.cluster.owner import is_gone
from webhook.cluster.rest import UNREACHED, RefusedError, Rest
from webhook.cluster.target import CONFIGURATIONS, configurations
from webhook.trace.plan import RUN_LABEL, is_observer
from webhook.trace.registration import OWNER, has_expired

_PATIENCE_SECONDS: Final = 60.0
_SHORTEST_WAIT: Final = 0.2
_LONGEST_WAIT: Final = 5.0


class StillRegisteredError(Exception):
    """The API server could not be reached to remove what was registered."""

    def __init__(self, run: str, reason: str) -> None:
        super().__init__(
            f"registrations are left behind ({reason}); they change nothing and hold up writes of "
            "this object at most for seconds. Remove them with: "
            f"kubectl delete mutatingwebhookconfigurations -l {RUN_LABEL}={run}"
        )


class Bracket:
    """The registrations of one run."""

    def __init__(self, rest: Rest, run: str, patience: float = _PATIENCE_SECONDS) -> None:
        self._rest: Final = rest
        self._run: Final = run
        self._patience: Final = patience

    async def register(self, documents: Iterable[Mapping[str, Any]]) -> None:
        """Create them all; raises RefusedError or one of UNREACHED, and then some may exist."""
        for document in documents:
            await self._rest.call("POST", CONFIGURATIONS, document)

    async def remove(self) -> None:
        """Delete all of this run's, again and again until a list shows none.

        Raises StillRegisteredError.
        """
        end, wait = time.monotonic() + self._patience, _SHORTEST_WAIT
        while True:
            try:
                # Once more after each deletion: only an empty list is an answer.
                if not await delete(self._rest, await self._own()):
                    return
                reason = "they do not go away"
            except RefusedError as error:
                if not error.is_passing:
                    raise StillRegisteredError(self._run, str(error)) from error
                reason = str(error)
            except UNREACHED as error:
                reason = type(error).__name__
            if time.monotonic() >= end:
                raise StillRegisteredError(self._run, reason)
            await asyncio.sleep(wait)
            wait = min(2 * wait, _LONGEST_WAIT)

    async def _own(self) -> list[dict[str, Any]]:
        listed = await self._rest.get(CONFIGURATIONS, labelSelector=f"{RUN_LABEL}={self._run}")
        found: list[dict[str, Any]] = listed["items"]
        return found


async def clean_up(rest: Rest, *, everything: bool = False) -> list[str]:
    """Delete what other runs left behind, live ones too when asked for `everything`; its names.

    Left behind is what has expired, and what a process made that is known to have ended.
    """
    now = datetime.now(UTC)

    def is_left(document: dict[str, Any]) -> bool:
        owner = (document["metadata"].get("annotations") or {}).get(OWNER, "")
        return everything or has_expired(document, now) or is_gone(owner)

    found = [one for one in await configurations(rest) if is_observer(one) and is_left(one)]
    return await delete(rest, found)


async def delete(rest: Rest, documents: Iterable[Mapping[str, Any]]) -> list[str]:
    """Delete these and no namesakes of theirs; the names. Raises RefusedError or UNREACHED."""
    names = []
    for document in documents:
        metadata = document["metadata"]
        options = {"preconditions": {"uid": metadata["uid"]}}
        try:
            await rest.call("DELETE", f"{CONFIGURATIONS}/{metadata['name']}", options)
        except RefusedError as error:
            if error.status not in (HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT):
                raise
        names.append(metadata["name"])
    return names


async def changed_since(rest: Rest, before: Iterable[Mapping[str, Any]]) -> list[str]:
    """Configurations that came, went or were edited; observers, of whatever run, are none."""
    now = _identities(await configurations(rest))
    return sorted({name for name, _, _ in now ^ _identities(before)})


def _identities(documents: Iterable[Mapping[str, Any]]) -> set[tuple[str, str, int]]:
    return {
        (one["metadata"]["name"], one["metadata"]["uid"], one["metadata"].get("generation", 0))
        for one in documents
        if not is_observer(one)
    }

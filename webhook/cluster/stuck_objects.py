"""Reads objects that seem stuck: they may be done, or gone.

A replica sees the writes that the API server sends to it. Without a watch, an object whose last
write went elsewhere would count as stuck for ever. So would one that is deleted while no deletion
of its kind is reviewed, or of which a review is read after the deletion. Of a watched kind that
is an object that the watch has not shown: it was deleted before the watch began.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from http import HTTPStatus
from itertools import islice
from typing import Final
from urllib.parse import quote

import msgspec

from genguard.objects.fields import Fields
from genguard.status.assessment import JudgeFields, judge_no_fields
from genguard.status.tracking import Tracked, Tracking
from webhook.cluster.rest import UNREACHED, Calls, RefusedError
from webhook.tasks.supervisor import Supervisor
from webhook.tasks.threads import in_thread

AHEAD_SECONDS: Final = 10.0
"""An object is read so long before it counts as stuck: then it is known in time. One that is being
deleted is read so long after that was seen: the end of a namespace is no write of it."""
AGAIN_SECONDS: Final = 30.0
"""The pause between two reads of one object."""
MOST_READS: Final = 5
"""Reads in each turn, so that genguard does not load the API server."""
TURN_SECONDS: Final = 2.0
_PATH_SECONDS: Final = 600.0
"""How long the path of a kind is believed: its preferred version may change."""
_CALL_SECONDS: Final = 5.0
_BATCH_SIZE: Final = 50
_ELSEWHERE: Final = frozenset({"", ".", ".."})
_Kind = tuple[str, str]


class StuckObjects:
    """Reads objects of a Tracking that no watch has shown. `run` it in a task."""

    def __init__(
        self,
        tracking: Tracking,
        calls: Calls,
        locate: Callable[[str], Awaitable[str]],
        clock: Callable[[], float] = time.time,
        judge: JudgeFields = judge_no_fields,
        *,
        supervisor: Supervisor | None = None,
    ) -> None:
        """`locate` returns the path of `deployments.apps`; see collection_path."""
        self._supervisor: Final = supervisor or Supervisor()
        self._judge: Final = judge
        self._tracking: Final = tracking
        self._calls: Final = calls
        self._locate: Final = locate
        self._clock: Final = clock
        self._read_at: dict[str, float] = {}
        self._paths: Final[dict[_Kind, tuple[float, str]]] = {}

    async def run(self) -> None:
        """Take a turn every TURN_SECONDS, for ever."""
        while True:
            await asyncio.sleep(TURN_SECONDS)
            await self.turn()

    async def turn(self) -> None:
        """Read the objects that are due, those first that were not read for longest."""
        now = self._clock()
        stuck: dict[str, float] = {}
        unsettled = self._stuck(now)
        while batch := list(islice(unsettled, _BATCH_SIZE)):
            stuck.update((uid, self._read_at.get(uid, 0.0)) for uid in batch if uid)
            await asyncio.sleep(0)
        # Times of objects that are no longer stuck are removed: memory is bounded by tracking.
        self._read_at = {uid: at for uid, at in self._read_at.items() if uid in stuck}
        due = [uid for uid, at in stuck.items() if not 0 <= now - at < AGAIN_SECONDS]
        for uid in sorted(due, key=stuck.__getitem__)[:MOST_READS]:
            self._read_at[uid] = now
            found = self._tracking.find(uid)
            if found is None:
                continue
            is_answered = True
            with self._supervisor.guard("stuck objects"):
                is_answered = await self._read(found)
            if not is_answered:
                return

    def _stuck(self, now: float) -> Iterator[str]:
        """Yield the uid of each object that is being deleted or soon stuck, "" for the others."""
        for uid, blocking in self._tracking.unsettled():
            found = self._tracking.find(uid)
            if found is None or (blocking.seen_at and self._tracking.is_watched(found)):
                yield ""
                continue
            at = self._tracking.stuck_at(found, blocking)
            if blocking.is_deleted:
                at = blocking.since + 2 * AHEAD_SECONDS
            yield uid if at is not None and now >= at - AHEAD_SECONDS else ""

    async def _read(self, found: Tracked) -> bool:
        """Read an object and record what it is; False where the API server does not answer."""
        try:
            async with asyncio.timeout(_CALL_SECONDS):
                path = await self._path(found)
                document = msgspec.json.decode(await self._calls.read(path), type=Fields)
            answers = await in_thread(self._judge, found.kind.group, found.kind.kind, document)
            self._tracking.record_read(found.uid, document, self._clock(), answers)
        except RefusedError as error:
            if error.status == HTTPStatus.NOT_FOUND:
                self._tracking.forget(found.uid)
        except UNREACHED:
            return False
        except (KeyError, ValueError, RecursionError):
            return True  # what cannot be read stays as it was seen
        return True

    async def _path(self, found: Tracked) -> str:
        """Return the path of an object; raises ValueError where it would lead elsewhere."""
        kind, state = found.kind, found.state
        # A forged review may contain any text in each part: none may lead elsewhere.
        if _ELSEWHERE & {kind.resource, state.name} or state.namespace in {".", ".."}:
            raise ValueError("no name of an object")
        key, now = (kind.group, kind.resource), self._clock()
        known = self._paths.get(key)
        if known is None or not 0 <= now - known[0] < _PATH_SECONDS:
            name = f"{kind.resource}.{kind.group}" if kind.group else kind.resource
            known = self._paths[key] = now, await self._locate(name)
        root, _, resource = known[1].rpartition("/")
        within = f"/namespaces/{quote(state.namespace, safe='')}" if state.namespace else ""
        return f"{root}{within}/{resource}/{quote(state.name, safe='')}"

"""Keeps open findings in a ConfigMap, from one pod to the next.

Without this (and without a store) findings would end with their pod, and with them the knowledge of
what is to be healed, while the damage stays. FindingsPersister loads them before the server starts,
and saves them on the replica that leads. A standby shows what the leader has saved last.
"""

import asyncio
import base64
import binascii
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any, Final, Protocol

import msgspec

from genguard.detection.finding import Finding, Severity
from genguard.detection.ledger import Mark, Row, Signs, UnreadableFindingsError, pack, unpack
from webhook.cluster.rest import UNREACHED, Calls, RefusedError
from webhook.election.leader import Leadership
from webhook.tasks.supervisor import Supervisor
from webhook.tasks.threads import in_thread
from webhook.telemetry import declarations
from webhook.telemetry.logs import LOGGER
from webhook.telemetry.metrics import Metrics

_KEY: Final = "findings"
_DESCRIPTION: Final = (
    "Open findings of genguard, for its next pod: names, numbers, times and words of conditions; "
    "other values of objects only with --show-values. It may be deleted; genguard makes it again."
)
SAVE_SECONDS: Final = 2.0
"""The shortest pause between saves of news: a finding, its state, severity or damage. What a pod
that is killed found since its last save is lost."""
COUNT_SECONDS: Final = 60.0
"""The shortest pause between saves in which only counts have changed."""
START_SECONDS: Final = 3.0
"""How long the start waits for the findings of an earlier pod."""
_TICK_SECONDS: Final = 1.0
SAVING: Final = "saving findings"
"""The name of the task."""
_CALL_SECONDS: Final = 5.0
_MOST_UNREAD: Final = 5
"""So often in a row a standby reads nothing before it says so."""
_BATCH: Final = 50
_RANKS: Final = {severity: rank for rank, severity in enumerate(Severity)}


class FindingsConfigMap:
    """The ConfigMap of findings. Needs the rights to create ConfigMaps, get and update it."""

    def __init__(self, calls: Calls, namespace: str, name: str) -> None:
        self._calls: Final = calls
        self._folder: Final = f"/api/v1/namespaces/{namespace}/configmaps"
        self._path: Final = f"{self._folder}/{name}"
        self._metadata: dict[str, Any] = {}
        self._name: Final = {"name": name, "namespace": namespace}

    def __str__(self) -> str:
        return f"{self._name['namespace']}/{self._name['name']}"

    async def read(self) -> bytes | None:
        """Return its content; None when the ConfigMap does not exist or is empty.

        Raises RefusedError, one of UNREACHED, or UnreadableFindingsError.
        """
        try:
            found = await self._calls.call("GET", self._path)
        except RefusedError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise
            self._metadata = {}
            return None
        self._metadata = found["metadata"]
        text = (found.get("binaryData") or {}).get(_KEY)
        if text is None:
            return None
        try:
            return base64.b64decode(text, validate=True)
        except binascii.Error as error:
            raise UnreadableFindingsError("no base64") from error

    async def write(self, data: bytes) -> None:
        """Replace the content that was read last, or create the ConfigMap.

        Raises RefusedError, with 409 or 404 when somebody else has changed it since; or one of
        UNREACHED.
        """
        labels = {"app.kubernetes.io/name": "genguard"}
        annotations = {"kubernetes.io/description": _DESCRIPTION}
        was = self._metadata
        body = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                **was,
                **self._name,
                "labels": (was.get("labels") or {}) | labels,
                "annotations": (was.get("annotations") or {}) | annotations,
            },
            "binaryData": {_KEY: base64.b64encode(data).decode()},
        }
        if was:
            written = await self._calls.call("PUT", self._path, body)
        else:
            written = await self._calls.call("POST", self._folder, body)
        self._metadata = written["metadata"]


class Findings(Protocol):
    """All findings; see Ledger."""

    def marks(self) -> Iterator[tuple[str, Mark]]:
        """Yield the name of each finding, and a value that differs once it has changed."""

    def export(self, name: str) -> bytes | None:
        """Return all that is known of a finding; None when it is gone by now."""

    def findings(self) -> tuple[Finding, ...]:
        """Return all findings."""

    def restore(self, rows: Iterable[Row]) -> None:
        """Replace all findings by these. Raises msgspec.MsgspecError or ValueError."""

    def take_over(self, rows: Iterable[Row], restored: Mapping[str, Signs]) -> set[str]:
        """Add an earlier leader's export; return the ids of its findings. Raises the same."""

    def doubt(self) -> None:
        """Take for damage what was restored in time: it may be lost by now."""


class FindingsPersister:
    """Loads findings (`load`) before the server starts, and saves them while `running`."""

    def __init__(
        self,
        findings: Findings,
        storage: FindingsConfigMap,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`clock` gives monotonic seconds."""
        self._findings: Final = findings
        self._storage: Final = storage
        self._clock: Final = clock
        self._restored: dict[str, Signs] = {}
        self._followed: bytes | None = None
        self._saved: dict[str, Mark] | None = {}
        self._saved_at = float("-inf")
        self._ticked_at = self._followed_at = float("-inf")
        self._has_taken_over = False
        self._unread = 0
        self._is_failing = False
        self._left_out = 0
        self.failures = 0

    async def load(self) -> None:
        """Restore the saved findings. Never raises: without them the server starts with none."""
        try:
            async with asyncio.timeout(START_SECONDS):
                self._findings.restore(await self._read())
        except (RefusedError, *UNREACHED, msgspec.MsgspecError, ValueError) as error:
            self._log_unread(error)
        self._note_restored()
        if self._restored:
            facts = {"place": str(self._storage), "findings": len(self._restored)}
            LOGGER.info("findings restored", extra={"facts": facts})

    @asynccontextmanager
    async def running(
        self,
        leadership: Leadership,
        know: Callable[[Collection[str]], None],
        metrics: Metrics,
        supervisor: Supervisor,
        *,
        stands_by: bool = False,
    ) -> AsyncIterator[None]:
        """Save while the context is entered and this replica leads, and once at the end.

        know       is called with the ids of findings that another leader has reported
        stands_by  while another replica leads, take its findings as it saves them
        """
        metrics.gauge(declarations.STORE_SAVE_FAILURES, lambda: float(self.failures))
        over = asyncio.Event()
        supervisor.start(SAVING, lambda: self._run(leadership, know, over, stands_by=stands_by))
        try:
            yield
        finally:
            await supervisor.end((SAVING,), ask=over.set)  # not cancelled: it may be writing
            with supervisor.guard("save at the end"):
                if leadership.is_leader:
                    await self.tick(know, is_last=True)

    async def _run(
        self,
        leadership: Leadership,
        know: Callable[[Collection[str]], None],
        over: asyncio.Event,
        *,
        stands_by: bool,
    ) -> None:
        led = False
        while not over.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_TICK_SECONDS):
                    await over.wait()
                    return
            if leadership.is_leader:
                led = True
                await self.tick(know, is_last=False)
                continue
            if led:
                # The next leader reads again what has changed since it began to lead.
                await self.tick(know, is_last=True)
                self._ticked_at, self._followed = float("-inf"), None
            led = self._has_taken_over = False
            if stands_by:
                await self.follow(know)

    async def tick(self, know: Callable[[Collection[str]], None], *, is_last: bool) -> None:
        """As the leader, take over the findings of the last leader, then save if it is time."""
        now = self._clock()
        if now - self._ticked_at < SAVE_SECONDS and not is_last:
            return
        self._ticked_at = now
        try:
            async with asyncio.timeout(_CALL_SECONDS):
                if not self._has_taken_over:
                    await self._take_over(know)
                await self._save(now, is_last=is_last)
        except RefusedError as error:
            if error.status in (HTTPStatus.CONFLICT, HTTPStatus.NOT_FOUND):
                self._has_taken_over = False  # somebody else has written it: read it again
            else:
                self._log_failure(str(error.status))
        except UNREACHED as error:
            self._log_failure(type(error).__name__)
        except Exception:
            self.failures += 1
            raise

    async def follow(self, know: Callable[[Collection[str]], None]) -> None:
        """As a standby, replace all findings by those of the leader, if it has saved others."""
        now = self._clock()
        if now - self._followed_at < SAVE_SECONDS:
            return
        self._followed_at = now
        try:
            async with asyncio.timeout(_CALL_SECONDS):
                data = await self._storage.read()
                if data != self._followed:
                    self._findings.restore(() if data is None else await in_thread(unpack, data))
                    self._followed = data
                    know(self._note_restored())
            self._unread = 0
        except (RefusedError, *UNREACHED, msgspec.MsgspecError, ValueError) as error:
            self._unread += 1
            if self._unread == _MOST_UNREAD:
                self._log_unread(error)

    def _note_restored(self) -> set[str]:
        """Remember the signals of each finding, as others have seen them; return the ids."""
        self._restored = {name: mark.signs for name, mark in self._findings.marks()}
        return {one.id for one in self._findings.findings()}

    async def _take_over(self, know: Callable[[Collection[str]], None]) -> None:
        """Read the saved findings. A save before this would lose those of an earlier leader."""
        self._saved = {}
        try:
            rows = await self._read()
            for start in range(0, len(rows), _BATCH):
                batch = rows[start : start + _BATCH]
                know(self._findings.take_over(batch, self._restored))
                await asyncio.sleep(0)
            if rows:
                self._saved = None  # unknown: these may not be the current findings
            self._findings.doubt()  # until this replica led, writes may have been lost
        except (UnreadableFindingsError, msgspec.MsgspecError, ValueError) as error:
            self._log_unread(error)
        self._has_taken_over = True

    async def _save(self, now: float, *, is_last: bool) -> None:
        marks = await self._marks()
        if not self._is_due(marks, now, is_last=is_last):
            return
        worst = sorted(marks, key=lambda name: (_RANKS[marks[name].severity], marks[name].signs[1]))
        rows = list[Row]()
        for count, name in enumerate(reversed(worst), start=1):
            content = self._findings.export(name)
            if content is not None:
                rows.append((name, content))
            if count % _BATCH == 0:
                await asyncio.sleep(0)
        block = await in_thread(pack, rows)
        await self._storage.write(block.data)
        self._saved, self._saved_at = marks, now
        self._log_saved(block.left_out)

    async def _marks(self) -> dict[str, Mark]:
        """Return the marks of findings that are not resolved."""
        found = dict[str, Mark]()
        for count, (name, mark) in enumerate(self._findings.marks(), start=1):
            if mark.state != "resolved":
                found[name] = mark
            if count % _BATCH == 0:
                await asyncio.sleep(0)
        return found

    def _is_due(self, marks: Mapping[str, Mark], now: float, *, is_last: bool) -> bool:
        if marks == self._saved:
            return False
        if self._saved is None or is_last or now - self._saved_at >= COUNT_SECONDS:
            return True
        return _has_news(marks, self._saved)

    async def _read(self) -> tuple[Row, ...]:
        data = await self._storage.read()
        return () if data is None else await in_thread(unpack, data)

    def _log_unread(self, error: Exception) -> None:
        reason = str(error) if isinstance(error, UnreadableFindingsError) else type(error).__name__
        reason = str(error.status) if isinstance(error, RefusedError) else reason
        facts = {"place": str(self._storage), "reason": reason}
        LOGGER.warning("findings not restored", extra={"facts": facts})

    def _log_failure(self, reason: str) -> None:
        self.failures += 1
        if not self._is_failing:
            facts = {"place": str(self._storage), "reason": reason}
            LOGGER.warning("findings not saved", extra={"facts": facts})
        self._is_failing = True

    def _log_saved(self, left_out: int) -> None:
        if self._is_failing:
            LOGGER.info("findings are saved again")
        if left_out and not self._left_out:
            facts = {"place": str(self._storage), "leftOut": left_out}
            LOGGER.warning("not all findings had room", extra={"facts": facts})
        self._is_failing, self._left_out = False, left_out


def _has_news(marks: Mapping[str, Mark], saved: Mapping[str, Mark]) -> bool:
    """Whether findings came or went, or of one more than its signals has changed."""
    return marks.keys() != saved.keys() or any(
        _news(mark) != _news(saved[name]) for name, mark in marks.items()
    )


def _news(mark: Mark) -> tuple[object, ...]:
    return mark.state, mark.severity, mark.damage

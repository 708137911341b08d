"""Carries open findings from pod to pod: read before the server starts, saved by the leader.

Without a store findings would end with their pod, and with them what is to be healed, while what
they tell of still hangs.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Final, Protocol

import msgspec

from webhook.alerts.leader import Leadership
from webhook.cluster.rest import UNREACHED, RefusedError
from webhook.detection.carried import UnreadableFindingsError, pack, unpack
from webhook.detection.finding import Severity
from webhook.detection.ledger import Mark, Row, Signs
from webhook.telemetry import declarations
from webhook.telemetry.logs import LOGGER
from webhook.telemetry.metrics import Metrics
from webhook.threads import in_thread

SAVE_SECONDS: Final = 5.0
"""At most so often what is new is saved: a finding, its state, its severity, its damage."""
COUNT_SECONDS: Final = 60.0
"""At most so often counts alone are saved."""
START_SECONDS: Final = 3.0
"""So long the start waits for what an earlier pod has found."""
_TURN_SECONDS: Final = 1.0
_CALL_SECONDS: Final = 5.0
_BITE: Final = 50
_RANKS: Final = {severity: rank for rank, severity in enumerate(Severity)}


class Findings(Protocol):
    """Everything found; see Ledger."""

    def marks(self) -> Iterator[tuple[str, Mark]]:
        """The name of each finding, and what differs once it has changed."""

    def export(self, name: str) -> bytes | None:
        """All that is known of a finding; None when it is gone by now."""

    def restore(self, rows: Iterable[Row]) -> None:
        """Have these and no others. Raises msgspec.MsgspecError or ValueError."""

    def take_over(self, rows: Iterable[Row], restored: Mapping[str, Signs]) -> set[str]:
        """Take in what an earlier leader has exported; ids of what is its own. Raises the same."""


class Place(Protocol):
    """Where findings are kept; see FindingsConfigMap."""

    async def read(self) -> bytes | None:
        """What is kept; raises RefusedError, one of UNREACHED, or UnreadableFindingsError."""

    async def write(self, data: bytes) -> None:
        """Replace what was read; raises RefusedError, 409 or 404 when somebody else has."""


class Carrying:
    """`load` before the server starts; then it is `running`."""

    def __init__(
        self, findings: Findings, place: Place, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`clock` gives seconds."""
        self._findings: Final = findings
        self._place: Final = place
        self._clock: Final = clock
        self._restored: dict[str, Signs] = {}
        self._saved: dict[str, Mark] | None = {}
        self._saved_at = float("-inf")
        self._looked_at = float("-inf")
        self._has_taken_over = False
        self._is_failing = False
        self._left_out = 0
        self.failures = 0

    async def load(self) -> None:
        """Restore what is kept. Never raises: without it the server starts with nothing."""
        try:
            async with asyncio.timeout(START_SECONDS):
                self._findings.restore(await self._read())
        except (RefusedError, *UNREACHED, msgspec.MsgspecError, ValueError) as error:
            self._tell_unread(error)
        self._restored = {name: mark.signs for name, mark in self._findings.marks()}
        if self._restored:
            facts = {"place": str(self._place), "findings": len(self._restored)}
            LOGGER.info("findings restored", extra={"facts": facts})

    @asynccontextmanager
    async def running(
        self,
        leadership: Leadership,
        know: Callable[[Collection[str]], None],
        metrics: Metrics,
    ) -> AsyncIterator[None]:
        """Save while this replica leads, and once more at the end.

        `know` is told of findings that are no news, as an earlier leader has told of them.
        """
        metrics.gauge(declarations.STORE_SAVE_FAILURES, lambda: float(self.failures))
        over = asyncio.Event()
        saving = asyncio.create_task(self._run(leadership, know, over))
        try:
            yield
        finally:
            over.set()  # and not cancelled: a save may be on its way
            await saving

    async def _run(
        self,
        leadership: Leadership,
        know: Callable[[Collection[str]], None],
        over: asyncio.Event,
    ) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_TURN_SECONDS):
                    await over.wait()
            is_last = over.is_set()
            if leadership.is_leader:
                await self.turn(know, is_last=is_last)
            else:
                self._has_taken_over = False
            if is_last:
                return

    async def turn(self, know: Callable[[Collection[str]], None], *, is_last: bool) -> None:
        """On the leader: take over what the last one has left, then save if it is time."""
        now = self._clock()
        if now - self._looked_at < SAVE_SECONDS and not is_last:
            return
        self._looked_at = now
        try:
            async with asyncio.timeout(_CALL_SECONDS):
                if not self._has_taken_over:
                    await self._take_over(know)
                await self._save(now, is_last=is_last)
        except RefusedError as error:
            if error.status in (HTTPStatus.CONFLICT, HTTPStatus.NOT_FOUND):
                self._has_taken_over = False  # somebody else has written it: it is read again
            else:
                self._fail(str(error.status))
        except UNREACHED as error:
            self._fail(type(error).__name__)
        except Exception:  # noqa: BLE001 - a save that fails must not end all later ones
            self.failures += 1
            LOGGER.error("findings not saved", exc_info=True)

    async def _take_over(self, know: Callable[[Collection[str]], None]) -> None:
        """No save comes before this: it would lose what an earlier leader has found."""
        self._saved = {}
        try:
            rows = await self._read()
            for start in range(0, len(rows), _BITE):
                bite = rows[start : start + _BITE]
                know(self._findings.take_over(bite, self._restored))
                await asyncio.sleep(0)
            if rows:
                self._saved = None  # nobody knows whether these are the findings of now
        except (UnreadableFindingsError, msgspec.MsgspecError, ValueError) as error:
            self._tell_unread(error)
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
            if count % _BITE == 0:
                await asyncio.sleep(0)
        block = await in_thread(pack, rows)
        await self._place.write(block.data)
        self._saved, self._saved_at = marks, now
        self._tell_saved(block.left_out)

    async def _marks(self) -> dict[str, Mark]:
        """Of what is not resolved."""
        found = dict[str, Mark]()
        for count, (name, mark) in enumerate(self._findings.marks(), start=1):
            if mark.state != "resolved":
                found[name] = mark
            if count % _BITE == 0:
                await asyncio.sleep(0)
        return found

    def _is_due(self, marks: Mapping[str, Mark], now: float, *, is_last: bool) -> bool:
        if marks == self._saved:
            return False
        if self._saved is None or is_last or now - self._saved_at >= COUNT_SECONDS:
            return True
        return _without_signs(marks) != _without_signs(self._saved)

    async def _read(self) -> tuple[Row, ...]:
        data = await self._place.read()
        return () if data is None else await in_thread(unpack, data)

    def _tell_unread(self, error: Exception) -> None:
        reason = str(error) if isinstance(error, UnreadableFindingsError) else type(error).__name__
        reason = str(error.status) if isinstance(error, RefusedError) else reason
        facts = {"place": str(self._place), "reason": reason}
        LOGGER.warning("findings not restored", extra={"facts": facts})

    def _fail(self, reason: str) -> None:
        self.failures += 1
        if not self._is_failing:
            facts = {"place": str(self._place), "reason": reason}
            LOGGER.warning("findings not saved", extra={"facts": facts})
        self._is_failing = True

    def _tell_saved(self, left_out: int) -> None:
        if self._is_failing:
            LOGGER.info("findings are saved again")
        if left_out and not self._left_out:
            facts = {"place": str(self._place), "leftOut": left_out}
            LOGGER.warning("not all findings had room", extra={"facts": facts})
        self._is_failing, self._left_out = False, left_out


def _without_signs(marks: Mapping[str, Mark]) -> dict[str, Mark]:
    return {name: mark._replace(signs=(0, 0.0)) for name, mark in marks.items()}

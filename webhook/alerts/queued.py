"""Hands changes of findings to one sink in a task of its own: a slow sink delays nobody else.

Of each finding the latest change waits, in the order of their coming, and the latest state of all
findings. A change that a later one of the same finding replaces is counted, and so is one that had
no room. What a sink fails to take is offered again.
"""

import asyncio
from typing import Final

from genguard.detection.finding import Finding
from genguard.detection.ledger import MOST_FINDINGS
from webhook.alerts.change import Change, Sink

SINK_SECONDS: Final = 30.0
"""How long a sink may take for all that waits; each call that it makes has a shorter limit."""
_CLOSE_SECONDS: Final = 5.0


class QueuedSink:
    """One sink, and what waits for it. `run` it in a task."""

    def __init__(self, name: str, sink: Sink, seconds: float = SINK_SECONDS) -> None:
        """`seconds` are the longest that the sink may take at a time."""
        self.name: Final = name
        self.task: Final = f"sink {name}"
        """The name of the task."""
        self._sink: Final = sink
        self._seconds: Final = seconds
        self._changes: Final[dict[str, Change]] = {}
        self._findings: tuple[Finding, ...] = ()
        self._wake: Final = asyncio.Event()
        self.replaced = 0

    def __len__(self) -> int:
        return len(self._changes)

    def put(self, changes: tuple[Change, ...], findings: tuple[Finding, ...]) -> None:
        """Have the sink told of these changes soon, and of all findings; never waits."""
        for change in changes:
            self._add(change)
        self._findings = findings
        self._wake.set()

    async def run(self) -> None:
        """Tell the sink what waits, for ever. Raises what the sink raises, or TimeoutError."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            taken = tuple(self._changes.values())
            self._changes.clear()
            try:
                async with asyncio.timeout(self._seconds):
                    await self._sink.tell(taken, self._findings)
            except BaseException:
                self._take_back(taken)
                raise

    async def close(self) -> None:
        """Close the sink; raises what it raises, or TimeoutError."""
        async with asyncio.timeout(_CLOSE_SECONDS):
            await self._sink.close()

    def _add(self, change: Change) -> None:
        name = change.finding.id
        if self._changes.pop(name, None) is not None:
            self.replaced += 1
        elif len(self._changes) >= MOST_FINDINGS:
            del self._changes[next(iter(self._changes))]
            self.replaced += 1
        self._changes[name] = change

    def _take_back(self, taken: tuple[Change, ...]) -> None:
        """Let changes wait again, before those that came meanwhile."""
        later = tuple(self._changes.values())
        self._changes.clear()
        for change in (*taken, *later):
            self._add(change)
        self._wake.set()

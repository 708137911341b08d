"""A supervisor whose tasks can be made to fail, wherever they wait just then."""

import asyncio
import contextlib
from typing import Any

from webhook.tasks.supervisor import Run, Supervisor


class InjectedError(Exception):
    """No part of the product expects it."""


class FaultySupervisor(Supervisor):
    """A Supervisor whose tasks can be made to raise; it starts them again soon."""

    def __init__(self) -> None:
        super().__init__(sleep=lambda _: asyncio.sleep(0.05))
        self.every: set[str] = set()
        """The names of all tasks that were ever started."""
        self.runs: dict[str, int] = {}
        """How often each was started."""
        self._running: dict[str, asyncio.Task[None]] = {}
        self._thrown: set[str] = set()

    def start(self, name: str, run: Run, **more: Any) -> None:
        async def work() -> None:
            await run()

        async def faulty() -> None:
            task = self._running[name] = asyncio.create_task(work())
            self.runs[name] = self.runs.get(name, 0) + 1
            try:
                await task
            except asyncio.CancelledError:
                if name in self._thrown:
                    self._thrown.discard(name)
                    raise InjectedError from None
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task
                raise

        self.every.add(name)
        super().start(name, faulty, **more)

    def throw_into(self, name: str) -> None:
        """End what a task does now, and have the task raise InjectedError."""
        self._thrown.add(name)
        self._running[name].cancel()

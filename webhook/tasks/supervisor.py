"""Runs the long-lived tasks of a server, and starts each again that fails.

A task that raises is logged and counted under its name, shown on the home page and by `doctor`, and
started again after a pause that doubles from SHORTEST_SECONDS to LONGEST_SECONDS. Once it has run
for WELL_SECONDS it counts as well, and its next pause is short again. `guard` is for one item of
many: what handling it raises is logged and counted, and the item is left out.

Not asyncio.TaskGroup alone: it cancels every task as soon as one fails.
"""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from webhook.telemetry.logs import LOGGER

if TYPE_CHECKING:
    from webhook.telemetry.metrics import Counts, Metrics

SHORTEST_SECONDS: Final = 1.0
LONGEST_SECONDS: Final = 60.0
WELL_SECONDS: Final = 120.0
"""Longer than the longest pause: a task that fails at each start never counts as well."""
END_SECONDS: Final = 10.0
"""How long the end of the server waits for tasks that clean up."""

Run = Callable[[], Awaitable[None]]
"""Begins a task; called again after each failure."""


class FailingTask(NamedTuple):
    """A task that has failed and is not yet well again.

    failures  how often it failed since the server started
    error     the type of the last error; its text may quote an object
    is_down   it waits to be started again
    """

    name: str
    failures: int
    error: str
    is_down: bool

    def __str__(self) -> str:
        times = "once" if self.failures == 1 else f"{self.failures} times"
        now = "is down" if self.is_down else "was started again"
        return f"{self.name} failed {times} with {self.error}, and {now}"


@dataclass(slots=True)
class _Supervised:
    run: Run
    on_failure: Callable[[], object]
    task: asyncio.Task[None] | None = None
    error: str = ""
    began: float = 0.0
    is_down: bool = False
    ends: bool = False


class Supervisor:
    """All long-lived tasks of one process, by name."""

    def __init__(
        self,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`sleep` makes the pause before a new start; `clock` gives monotonic seconds."""
        self._sleep: Final = sleep
        self._clock: Final = clock
        self._tasks: Final[dict[str, _Supervised]] = {}
        self._failures: Final[Counter[str]] = Counter()
        self.left_out: Final[Counter[str]] = Counter()
        """How many items were left out, by what they are."""

    def measured(self, metrics: "Metrics") -> None:
        """Export how often tasks failed, and how many items were left out."""
        metrics.counts("genguard_task_failures_total", self._counts)
        metrics.counts(
            "genguard_left_out_total", lambda: (((what,), n) for what, n in self.left_out.items())
        )

    def failing(self) -> tuple[FailingTask, ...]:
        """Return the tasks that have failed and are not yet well again."""
        now = self._clock()
        return tuple(
            FailingTask(name, self._failures[name], task.error, task.is_down)
            for name, task in self._tasks.items()
            if task.error and (task.is_down or now - task.began < WELL_SECONDS)
        )

    @contextmanager
    def guard(self, what: str, caught: type[Exception] = Exception) -> Iterator[None]:
        """Leave out what fails within: an error is logged and counted, and goes no further.

        caught  the errors that are; others are raised
        """
        try:
            yield
        except caught as error:  # one bad item must not end the others
            self.leave_out(what)
            several = error.exceptions if isinstance(error, ExceptionGroup) else (error,)
            for cause in several:
                LOGGER.error("left out", extra={"fields": {"what": what}}, exc_info=cause)

    def leave_out(self, what: str) -> None:
        """Count an item that is left out, and that the caller has logged."""
        self.left_out[what] += 1

    def count_failure(self, name: str) -> None:
        """Count a failure of a task that goes on by itself, and that the caller has logged."""
        self._failures[name] += 1

    @asynccontextmanager
    async def running(
        self, tasks: Mapping[str, Run], *, on_failure: Callable[[], object] = bool
    ) -> AsyncIterator[None]:
        """Run tasks while the context is entered, each under its name; see `start` and `end`."""
        for name, run in tasks.items():
            self.start(name, run, on_failure=on_failure)
        try:
            yield
        finally:
            await self.end(tasks)

    def start(self, name: str, run: Run, *, on_failure: Callable[[], object] = bool) -> None:
        """Start a task; `on_failure` is called after each of its failures. Needs a running loop."""
        if name in self._tasks:
            raise ValueError(f"a task {name} runs already")
        supervised = self._tasks[name] = _Supervised(run, on_failure)
        supervised.task = asyncio.create_task(self._supervise(name, supervised), name=name)

    async def end(self, names: Collection[str], *, ask: Callable[[], None] | None = None) -> None:
        """End tasks, all at once, and wait until they have ended. Never raises.

        ask  has them return by themselves, such as after what a thread still writes; only a task
             that is down is cancelled then
        """
        ended = [self._tasks[name] for name in names if name in self._tasks]
        if ask is not None:
            ask()
        for supervised in ended:
            supervised.ends = True
            if supervised.task is not None and (ask is None or supervised.is_down):
                supervised.task.cancel()
        waited = [supervised.task for supervised in ended if supervised.task is not None]
        if waited:
            _, late = await asyncio.wait(waited, timeout=END_SECONDS)
            for task in late:
                LOGGER.error("task does not end", extra={"fields": {"task": task.get_name()}})
                task.cancel()
        for name in names:
            self._tasks.pop(name, None)

    async def _supervise(self, name: str, supervised: _Supervised) -> None:
        """Run a task until it returns or is ended. Never raises but CancelledError."""
        wait = SHORTEST_SECONDS
        while True:
            supervised.began = self._clock()
            try:
                await supervised.run()
            except asyncio.CancelledError as error:
                if supervised.ends or (
                    supervised.task is not None and supervised.task.cancelling()
                ):
                    return
                self._fail(name, supervised, error)  # something within was cancelled, not the task
            except Exception as error:  # noqa: BLE001 - whatever it is, the task goes on
                self._fail(name, supervised, error)
            else:
                supervised.error = ""
                return
            if supervised.ends:
                return
            if self._clock() - supervised.began >= WELL_SECONDS:
                wait = SHORTEST_SECONDS
            await self._sleep(wait)
            wait = min(2 * wait, LONGEST_SECONDS)
            supervised.is_down = False

    def _fail(self, name: str, supervised: _Supervised, error: BaseException) -> None:
        supervised.error, supervised.is_down = type(error).__name__, True
        self._failures[name] += 1
        LOGGER.error("task failed", extra={"fields": {"task": name}}, exc_info=error)
        with self.guard("failures of tasks"):
            supervised.on_failure()

    def _counts(self) -> "Counts":
        return [((name,), self._failures[name]) for name in {*self._tasks, *self._failures}]

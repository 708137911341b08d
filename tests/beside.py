"""What goes on in a thread of its own while a test does other things."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any, ClassVar, Self

from tests.waiting import PATIENCE


class Beside:
    """`with` it: `_run` runs until left; it looks at `_over` to know when that is."""

    def __init__(self) -> None:
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        raise NotImplementedError


class Again(Beside):
    """`with Again(act, 0.1):`; `act(turn)` is done again and again, with a pause before each.

    turns  how often it was done
    done   is called at the end, in the same thread
    """

    def __init__(
        self,
        act: Callable[[int], object],
        pause: float,
        *,
        done: Callable[[], object] = lambda: None,
    ) -> None:
        super().__init__()
        self._act, self._pause, self._done = act, pause, done
        self.turns = 0

    def _run(self) -> None:
        while not self._over.wait(self._pause):
            self._act(self.turns)
            self.turns += 1
        self._done()


class OnLoop:
    """`with` it: `_begin` and `_end` run on an event loop of its own, and what `_do` is given."""

    patience: ClassVar[float] = PATIENCE
    """Seconds that `_do` waits."""

    def __enter__(self) -> Self:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        try:
            self._do(self._begin())
        except BaseException:
            self._leave()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._do(self._end())
        finally:
            self._leave()

    def _leave(self) -> None:
        """Ends the thread and closes the loop."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _do(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(self.patience)

    async def _begin(self) -> None:
        raise NotImplementedError

    async def _end(self) -> None:
        raise NotImplementedError

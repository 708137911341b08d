"""Controllers of scenarios that watch one object and write another, each in a thread."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from tests.scenarios.scene import Json, Stored

_POLL_SECONDS = 0.02


@dataclass(frozen=True, slots=True)
class Reaction:
    """`user` writes `writes` as often as the generation of `watches` has moved.

    spec   the fields that it writes, for what it has seen
    delay  seconds of work before each write
    times  it stops after so many writes
    then   what it does after each write
    """

    user: str
    writes: Stored
    watches: Stored
    spec: Callable[[Json], Json]
    delay: float = 0.0
    times: int = 1_000
    then: Callable[[Json], object] = id

    def run(self, is_over: threading.Event) -> None:
        """Poll and write until it is over."""
        seen, count = self.watches.generation, 0
        while not is_over.is_set() and count < self.times:
            time.sleep(_POLL_SECONDS)
            found = self.watches.get()
            if found["metadata"]["generation"] == seen:
                continue
            seen, count = found["metadata"]["generation"], count + 1
            time.sleep(self.delay)
            self.writes.spec(self.user, **self.spec(found))
            self.then(found)


@contextmanager
def reacting(*reactions: Reaction) -> Iterator[None]:
    """The controllers run meanwhile."""
    with ExitStack() as undo:
        is_over = threading.Event()
        for one in reactions:
            thread = threading.Thread(target=one.run, args=(is_over,))
            thread.start()
            undo.callback(thread.join)
        undo.callback(is_over.set)
        time.sleep(0.1)
        yield


@contextmanager
def every(seconds: float, *acts: Callable[[], object]) -> Iterator[None]:
    """Each act is done at its own interval of so many seconds, in a thread of its own."""
    is_over = threading.Event()

    def run(act: Callable[[], object], phase: float) -> None:
        time.sleep(phase)
        while not is_over.wait(seconds):
            act()

    threads = [
        threading.Thread(target=run, args=(act, seconds * number / len(acts)))
        for number, act in enumerate(acts)
    ]
    for one in threads:
        one.start()
    try:
        yield
    finally:
        is_over.set()
        for one in threads:
            one.join()

"""Python's garbage collector and the C heap, kept from delaying answers and from growing.

Nearly all that a review leaves behind is freed without the collector, which looks at everything
that is there now and then, while nothing is answered: for 30 ms and more once 100,000 objects are
remembered. What is freed stays with the process: after a burst that is more than what is in use.
"""

import ctypes
import gc
from typing import Final

_YOUNG: Final = 10_000
"""New objects before the youngest are looked at, which takes half a millisecond at most. By the
700 of the interpreter a tenth of the time of a review goes into looking at what is still in use."""
_BURST: Final = 1_000
_QUIET: Final = 100
_trim: Final = getattr(ctypes.CDLL(None), "malloc_trim", None)
"""Of glibc (malloc_trim(3)): musl has none, and needs none."""


def settle() -> None:
    """What is there now stays for good, and is not looked at again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG)


class Heap:
    """Gives free memory back to the system when it is quiet, since that takes some 20 ms."""

    def __init__(self) -> None:
        self._judged = 0
        self._given_back_at = 0

    def look(self, judged: int) -> None:
        """To be called every few seconds, with the number of reviews since the start."""
        lately, self._judged = judged - self._judged, judged
        if _trim is not None and lately <= _QUIET and judged - self._given_back_at >= _BURST:
            self._given_back_at = judged
            _trim(0)

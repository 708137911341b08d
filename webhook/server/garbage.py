"""Python's garbage collector, kept from delaying answers: nothing is answered while it looks.

Nearly all that a review leaves behind is freed without it. A full collection looks at everything
that is there, for 30 ms and more once 100,000 objects are remembered.
"""

import gc
from typing import Final

_YOUNG: Final = 10_000
"""New objects before the youngest are looked at, which takes half a millisecond at most. By the
700 of the interpreter a tenth of the time of a review goes into looking at what is still in use."""


def settle() -> None:
    """What is there now stays for good, and is not looked at again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG)

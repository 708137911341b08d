"""Python's garbage collector, kept from delaying answers: nothing is answered while it looks.

Nearly all that a review leaves behind is freed without it. A full collection looks at everything
that is there, for 30 ms and more once 100,000 objects are remembered.
"""

import gc
from typing import Final

_YOUNG: Final = 2_000
"""More new objects than were freed before the youngest are looked at. Where reviews are of ever
new objects nearly as many are freed as come: that is after some 2,000 reviews, and takes 5 ms. By
10,000 it takes 30 ms; by the 700 of the interpreter more that is freed soon is looked at first."""


def settle() -> None:
    """What is there now stays for good, and is not looked at again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG)

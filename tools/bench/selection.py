"""Which of the recorded reviews are kept: a fixed share of each kind of write, of every size."""

from collections.abc import Container, Mapping, Sequence
from typing import Final

from tools.bench.corpus import Recorded, mean_bytes

SHARES: Final = {"CREATE": 12, "UPDATE": 8, "UPDATE status": 30, "DELETE": 6}
"""About what a cluster's pods do: most writes are a kubelet's, to the status."""
SMALLEST: Final = 3_000
LARGEST: Final = 15_000
MEAN: Final = 8_400
_CLOSE_ENOUGH: Final = 50


class TooFewError(Exception):
    """The recording does not hold what is wanted; the message says what is missing."""


def select(
    recorded: Sequence[Recorded], shares: Mapping[str, int] = SHARES, mean: float = MEAN
) -> tuple[Recorded, ...]:
    """Choose by kind and size, then exchange reviews until the mean is right; in recorded order.

    Raises TooFewError.
    """
    chosen: list[int] = []
    spare: list[int] = []
    ends: set[int] = set()
    for write, wanted in shares.items():
        fitting = [
            index
            for index, one in enumerate(recorded)
            if one.write == write and SMALLEST <= len(one.body) <= LARGEST
        ]
        if len(fitting) < wanted:
            raise TooFewError(f"{wanted} of {write} are wanted, {len(fitting)} were recorded")
        fitting.sort(key=lambda index: (len(recorded[index].body), index))
        spread = {fitting[at * (len(fitting) - 1) // max(wanted - 1, 1)] for at in range(wanted)}
        ends |= {fitting[0], fitting[-1]}
        chosen += sorted(spread)
        spare += [index for index in fitting if index not in spread]
    _bring_to(mean, recorded, chosen, spare, ends)
    return tuple(recorded[index] for index in sorted(chosen))


def _bring_to(
    mean: float,
    recorded: Sequence[Recorded],
    chosen: list[int],
    spare: list[int],
    ends: Container[int],
) -> None:
    """Exchange one review at a time for another of its kind, the best first; `ends` stay."""
    while True:
        missing = (mean - mean_bytes(recorded[index] for index in chosen)) * len(chosen)
        if abs(missing) <= _CLOSE_ENOUGH * len(chosen):
            return
        exchanges = [
            (abs(missing - len(recorded[new].body) + len(recorded[old].body)), old, new)
            for old in chosen
            if old not in ends
            for new in spare
            if recorded[new].write == recorded[old].write
        ]
        left, old, new = min(exchanges, default=(abs(missing), 0, 0))
        if left >= abs(missing):
            raise TooFewError(f"no choice has a mean of {mean:.0f} bytes; {left:.0f} are missing")
        chosen[chosen.index(old)] = new
        spare[spare.index(new)] = old

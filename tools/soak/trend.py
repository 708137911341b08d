"""Whether something grows: the line of least squares through samples, and how sure its slope is."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

_LEAST = 3


@dataclass(frozen=True, slots=True)
class Trend:
    """A slope and its standard error, in the unit of the values by that of the times."""

    slope: float
    error: float

    def __str__(self) -> str:
        return f"{self.slope:.2f} ± {self.error:.2f}"

    def surely_above(self, most: float) -> bool:
        """Whether the slope is above, and not by the scatter of the samples alone."""
        return self.slope - 2 * self.error > most


def trend(times: Sequence[float], values: Sequence[float]) -> Trend:
    """Raises ValueError for less than three samples, or when all are of one time."""
    count = len(times)
    if count < _LEAST:
        raise ValueError(f"{count} samples have no trend; it takes {_LEAST}")
    middle, mean = math.fsum(times) / count, math.fsum(values) / count
    spread = math.fsum((at - middle) ** 2 for at in times)
    if not spread:
        raise ValueError("samples of one moment have no trend")
    pairs = list(zip(times, values, strict=True))
    slope = math.fsum((at - middle) * (value - mean) for at, value in pairs) / spread
    scatter = math.fsum((value - mean - slope * (at - middle)) ** 2 for at, value in pairs)
    return Trend(slope, math.sqrt(scatter / (count - 2) / spread))

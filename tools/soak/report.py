"""What a soak has shown, in words, and what of it is too much."""

import math
from collections.abc import Iterator
from statistics import linear_regression, variance
from typing import Final, NamedTuple

from tools.soak.soak import Soaked

MOST_MIB_AN_HOUR: Final = 1.0
MOST_METRICS_BYTES: Final = 200_000
_SHOWN: Final = 5
_BY_CHANCE: Final = ("genguard_store_requests_total{", "genguard_refused_requests_total{")
"""What befell genguard itself, in words of its own: the first time may come late."""
_MIB: Final = 1024 * 1024
_HOUR: Final = 3_600.0


class Trend(NamedTuple):
    """A slope and its standard error, in the unit of the values by that of the times."""

    slope: float
    error: float

    def __str__(self) -> str:
        return f"{self.slope:.2f} ± {self.error:.2f}"

    def surely_above(self, most: float) -> bool:
        """Whether the slope is above, and not by the scatter of the samples alone."""
        return self.slope - 2 * self.error > most


def memory(found: Soaked) -> Trend:
    """MiB an hour, by the line of least squares. Raises StatisticsError for too few samples."""
    times = [sample.at / _HOUR for sample in found.samples]
    values = [sample.resident / _MIB for sample in found.samples]
    slope, start = linear_regression(times, values)
    left = [value - start - slope * at for at, value in zip(times, values, strict=True)]
    freedom = len(times) - 2
    return Trend(slope, math.sqrt(variance(left, 0.0) / freedom / variance(times)))


def report(found: Soaked) -> str:
    """A few lines."""
    first, last = found.samples[0], found.samples[-1]
    asked, slope = found.answers, memory(found)
    most = max(one.metrics_bytes for one in found.samples)
    ends = f"{first.resident / _MIB:.1f} to {last.resident / _MIB:.1f} MiB"
    few, many = len(found.series_of_few), len(found.series_of_many)
    rows = {
        "measured": f"{last.at / 60:.0f} min, {len(found.samples)} samples",
        "objects": f"{found.many:,}",
        "reviews": f"{asked.answered:,}, {asked.shed:,} shed, {len(asked.wrong)} wrong",
        "handshakes": f"{found.handshakes:,} that failed",
        "troubles": f"{found.troubles} spoilt certificates, {found.troubles} lost stores",
        "memory": f"{ends}, {slope} MiB an hour",
        "descriptors": f"{first.descriptors} to {last.descriptors}",
        "series": f"{few} with {found.few:,} objects, {many} in the end",
        "/metrics": f"{most / 1e3:.1f} KB at most",
    }
    return "\n".join(f"{name:13}{text}" for name, text in rows.items())


def too_much(found: Soaked, most_mib_an_hour: float = MOST_MIB_AN_HOUR) -> list[str]:
    """Each thing that has grown, or was wrong; of memory a short soak can see but a steep slope."""
    return list(_reasons(found, most_mib_an_hour))


def _reasons(found: Soaked, most_mib_an_hour: float) -> Iterator[str]:
    first, last = found.samples[0], found.samples[-1]
    slope = memory(found)
    if slope.surely_above(most_mib_an_hour):
        yield f"memory grows by {slope} MiB an hour; {most_mib_an_hour:g} is allowed"
    if last.descriptors > first.descriptors:
        yield f"{last.descriptors} descriptors, {first.descriptors} when it was warm"
    grown = found.series_of_many - found.series_of_few
    new = sorted(one for one in grown if not one.startswith(_BY_CHANCE))
    if new:
        some = ", ".join(new[:_SHOWN])
        yield f"{len(new)} metric series that {found.few:,} objects had not: {some}"
    most = max(one.metrics_bytes for one in found.samples)
    if most > MOST_METRICS_BYTES:
        yield f"/metrics has {most:,} bytes; {MOST_METRICS_BYTES:,} are allowed"
    yield from (f"answered {wrong}" for wrong in found.answers.wrong)
    yield from (f"logged an error: {message}" for message in sorted(found.errors))

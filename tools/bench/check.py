"""Whether genguard costs more than it did: ratios to servers that run beside it, best to best.

Machines are noisy and differ; the ratio of two servers that took turns on one machine differs
little, and that of their best rounds less. A ratio that is too large is measured again, with all
rounds kept, before it is believed.
"""

from collections.abc import Callable, Iterator
from typing import Final

from tools.bench.results import COMPARED, Results, best_ratio
from tools.bench.rounds import Samples

WORSE: Final = 0.25
"""Share by which a ratio may be larger than the recorded one."""
ATTEMPTS: Final = 4


def regressions(recorded: Results, measured: Samples) -> Iterator[str]:
    """A sentence for each ratio that is worse than it may be."""
    for name, pair in COMPARED.items():
        before = best_ratio(recorded.servers, "cpu_us", *pair)
        now = best_ratio(measured, "cpu_us", *pair)
        if now > before * (1 + WORSE):
            yield (
                f"CPU of {name} is {now:.2f}; recorded is {before:.2f}, "
                f"and {WORSE:.0%} more are allowed"
            )


def check(
    recorded: Results, measure: Callable[[], Samples], say: Callable[[str], None]
) -> list[str]:
    """Measure until nothing is worse, ATTEMPTS times at most; what is worse in the end.

    Raises what `measure` raises.
    """
    measured: Samples = {}
    worse: list[str] = []
    for attempt in range(ATTEMPTS):
        for server, found in measure().items():
            kept = measured.setdefault(server, {})
            for key, values in found.items():
                kept.setdefault(key, []).extend(values)
        worse = list(regressions(recorded, measured))
        for name, pair in COMPARED.items():
            say(f"{name}: {best_ratio(measured, 'cpu_us', *pair):.2f}")
        if not worse:
            break
        say(f"attempt {attempt + 1} of {ATTEMPTS}: {'; '.join(worse)}")
    return worse

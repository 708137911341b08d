"""Everything that was measured, as it is kept in results.json: samples, and nothing worked out."""

from collections.abc import Mapping
from pathlib import Path
from statistics import median
from typing import Final

import msgspec

from tools.bench.rounds import Samples

FOLDER: Final = Path(__file__).parent
FILE: Final = "results.json"


class Results(msgspec.Struct, frozen=True):
    """One run.

    date     of the clock, YYYY-MM-DD
    commit   of the code that was measured; "" where it is not known
    machine  what it was measured on, and with what
    reviews  what was asked
    servers  server → key → a number a round
    growth   growth → server → `step/number` → a number a round
    through  what was registered with an API server → key → a number a round
    start    command → key → a number a round
    """

    date: str
    machine: dict[str, str]
    reviews: str
    servers: Samples
    growth: dict[str, Samples] = {}
    through: Samples = {}
    start: Samples = {}
    commit: str = ""


def middle(samples: Mapping[str, list[float]], key: str) -> float | None:
    """The median of the rounds; None where it was not measured."""
    found = samples.get(key)
    return median(found) if found else None


def spread(samples: Mapping[str, list[float]], key: str) -> float:
    """Half of what lies between the smallest and the largest."""
    return (max(samples[key]) - min(samples[key])) / 2


def ratio(samples: Samples, key: str, of: str, to: str) -> float | None:
    """The median of the rounds' ratios: what slowed a whole round down is in both."""
    own, other = samples.get(of, {}).get(key), samples.get(to, {}).get(key)
    if not own or not other:
        return None
    return median(one / two for one, two in zip(own, other, strict=True))


def read_results(folder: Path = FOLDER) -> Results:
    """What was kept. Raises OSError and msgspec.MsgspecError."""
    return msgspec.json.decode((folder / FILE).read_bytes(), type=Results)


def write_results(results: Results, folder: Path) -> None:
    """Keep it: one line a list, so that a difference can be read."""
    rounded = msgspec.convert(_rounded(msgspec.to_builtins(results)), Results)
    content = msgspec.json.format(msgspec.json.encode(rounded), indent=1)
    (folder / FILE).write_bytes(content + b"\n")


def _rounded(value: object) -> object:
    """Five digits: more is noise."""
    if isinstance(value, float):
        return float(f"{value:.5g}")
    if isinstance(value, dict):
        return {key: _rounded(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_rounded(one) for one in value]
    return value

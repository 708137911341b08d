"""Samples as a table to read and as a document to compare with another run."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from tests.bench.corpus import Recorded, mean_bytes
from tests.bench.rounds import Samples
from tests.bench.scenarios import Column
from tests.bench.servers import FLOOR


@dataclass(frozen=True, slots=True)
class Cell:
    """One number of one server: the median of all rounds, and how far they lie apart."""

    median: float
    spread: float  # largest less smallest
    ratio: float | None  # to the floor, where that is of interest


def cells(samples: Samples) -> dict[str, dict[str, Cell]]:
    """Server → column → number."""
    floor = samples.values.get(FLOOR, {})
    return {
        server: {
            column.key: _cell(column, found[column.key], floor.get(column.key))
            for column in samples.columns
        }
        for server, found in samples.values.items()
    }


def _cell(column: Column, values: Sequence[float], floor: Sequence[float] | None) -> Cell:
    ratio = None
    if column.compared and floor:
        # Round by round: what slowed a whole round down is in both.
        ratio = median(own / least for own, least in zip(values, floor, strict=True))
    return Cell(median(values), max(values) - min(values), ratio)


def table(samples: Samples) -> str:
    """One line a server; `±` is half of the spread over the rounds."""
    head = ["server"]
    for column in samples.columns:
        head.append(column.title)
        head += ["x floor"] * column.compared
    rows = [head]
    for server, found in cells(samples).items():
        rows.append([server, *(text for c in samples.columns for text in _texts(c, found[c.key]))])
    widths = [max(len(row[at]) for row in rows) for at in range(len(head))]
    return "\n".join(_line(row, widths) for row in rows)


def _texts(column: Column, cell: Cell) -> Iterator[str]:
    yield f"{cell.median:.{column.digits}f} ±{cell.spread / 2:.{column.digits}f}"
    if column.compared:
        yield "" if cell.ratio is None else f"{cell.ratio:.2f}"


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    name, *numbers = (text.rjust(width) for text, width in zip(row, widths, strict=True))
    return "  ".join((name.strip().ljust(widths[0]), *numbers)).rstrip()


def heading(facts: Mapping[str, str], corpus: Sequence[Recorded], connections: int) -> str:
    """What was measured, and on what."""
    sizes = [len(one.body) / 1e3 for one in corpus]
    machine = ", ".join(f"{name} {value}" for name, value in facts.items())
    reviews = (
        f"{len(corpus)} recorded pod reviews of {min(sizes):.1f} to {max(sizes):.1f} KB, "
        f"mean {mean_bytes(corpus) / 1e3:.1f}; {connections} keep-alive TLS connections"
    )
    return f"{machine}\n{reviews}"


def document(samples: Samples, facts: Mapping[str, str]) -> dict[str, Any]:
    """For `--json`: medians, spreads, ratios and every sample."""
    return {
        "machine": dict(facts),
        "servers": {
            server: {
                key: {
                    "median": cell.median,
                    "spread": cell.spread,
                    **({} if cell.ratio is None else {"ratioToFloor": cell.ratio}),
                    "samples": samples.values[server][key],
                }
                for key, cell in found.items()
            }
            for server, found in cells(samples).items()
        },
    }

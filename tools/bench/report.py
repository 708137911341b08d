"""Results as RESULTS.md: tables of medians and ratios, what they mean, and how to look further."""

from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple

from tools.bench.growth import GROWTHS, LIVES, MOST_OBJECTS, OBJECTS, Growth
from tools.bench.results import Results, middle, ratio, spread
from tools.bench.rounds import AFTER_MB, IDLE_MB, START_S
from tools.bench.scenarios import OPEN_RATES, SCENARIOS
from tools.bench.servers import APPLICATION, FLOOR, GENGUARD, GO, SERVERS
from tools.bench.start import COMMANDS, CPU_S, WALL_S
from tools.bench.start import LEGEND as START_LEGEND
from tools.bench.tables import NOT_MEASURED, fixed, table
from tools.bench.through import (
    COMPARED_LEGEND,
    COMPARISONS,
    DECIDED,
    NOTHING,
    P50,
    P99,
    RATE,
    THROUGH_KEYS,
)
from tools.bench.through import LEGEND as THROUGH_LEGEND

_LEGEND: Final = (
    "start s: from exec to the first TLS handshake; RSS MB: memory then, and after all of this.",
    "± is half of what lies between the smallest and the largest of the rounds.",
)
_OPENING: Final = """# What a review costs

Made by `make bench` from [results.json](results.json), which has every number of every round; do
not edit."""
_FURTHER: Final = """## Look further

- `python -m tools.bench.profile` says where the time of a review goes, by kind of write and phase,
  and shows a cProfile; with `--of detection` of what happens after the answer.
- `python -m tools.bench --quick` measures roughly, `--only through` a part, `--server NAME` some.
"""
_TITLES: Final = {
    "cpu_us": ("CPU µs", 0),
    "rate": ("req/s", 0),
    "rss_mb": ("RSS MB", 0),
    "remembered": ("remembered", 0),
    "left_out": ("left out", 0),
}


class Column(NamedTuple):
    """One column of the main table: its title, and its text for a server."""

    title: str
    text: Callable[[Results, str], str]


def _number(key: str, digits: int = 0, *, spreads: bool = False) -> Callable[[Results, str], str]:
    def text(results: Results, server: str) -> str:
        samples = results.servers[server]
        value = fixed(middle(samples, key), digits)
        return f"{value} ±{spread(samples, key):,.{digits}f}" if spreads else value

    return text


def _two(first: str, second: str, digits: int) -> Callable[[Results, str], str]:
    def text(results: Results, server: str) -> str:
        samples = results.servers[server]
        return " / ".join(fixed(middle(samples, key), digits) for key in (first, second))

    return text


def _ratio(key: str, to: str) -> Callable[[Results, str], str]:
    return lambda results, server: fixed(ratio(results.servers, key, server, to), 2)


MAIN: Final = (
    Column("server", lambda _, server: server),
    Column("CPU µs", _number("cpu_us", spreads=True)),
    Column("x floor", _ratio("cpu_us", FLOOR)),
    Column("x aiohttp", _ratio("cpu_us", APPLICATION)),
    Column("x go", _ratio("cpu_us", GO)),
    Column("req/s", _number("rate")),
    Column("x go", _ratio("rate", GO)),
    *(
        Column(f"p50 / p99 ms at {rate:,}/s", _two(f"p50_ms_{rate}", f"p99_ms_{rate}", 1))
        for rate in OPEN_RATES
    ),
    Column("start s", _number(START_S, 2)),
    Column("RSS MB", _two(IDLE_MB, AFTER_MB, 0)),
)


def main_table(results: Results) -> str:
    """One line a server; the README shows this one."""
    rows = [[column.text(results, server) for column in MAIN] for server in results.servers]
    return table([column.title for column in MAIN], rows)


def growth_table(growth: Growth, results: Results) -> str:
    """One line a step, genguard's cost beside that of the others."""
    found = results.growth[growth.key]
    head = [growth.along]
    head += [f"{server} {_TITLES[key][0]}" for server in found for key in growth.numbers]
    head += [f"{GENGUARD} x {server}" for server in growth.to]
    rows = []
    for step in growth.steps:
        cells = [
            fixed(middle(samples, f"{step.name}/{key}"), _TITLES[key][1])
            for samples in found.values()
            for key in growth.numbers
        ]
        first = f"{step.name}/{growth.numbers[0]}"
        cells += [fixed(ratio(found, first, GENGUARD, server), 2) for server in growth.to]
        rows.append([step.name, *cells])
    return table(head, rows)


def through_table(results: Results) -> str:
    """One line for what was registered; what it adds to nothing registered stands in brackets."""
    bare = results.through[NOTHING]
    head = ["registered", *(title for _, title, _ in THROUGH_KEYS)]
    rows = []
    for name, samples in results.through.items():
        cells = [name]
        for key, _, digits in THROUGH_KEYS:
            value, least = middle(samples, key), middle(bare, key)
            text = fixed(value, digits)
            if name != NOTHING and value is not None and least is not None:
                text += f" ({value - least:+,.{digits}f})"
            cells.append(text)
        rows.append(cells)
    return table(head, rows)


def start_table(results: Results) -> str:
    """One line a command: the best round, and the seconds that are wanted."""
    rows = []
    for one in COMMANDS:
        found = results.start[one.name]
        best = [fixed(min(found[key]), 2) for key in (WALL_S, CPU_S)]
        rows.append([one.name, *best, fixed(one.wanted_s, 2)])
    return table(["command", "s", "CPU s", "wanted s"], rows)


def compared_table(results: Results) -> str:
    """One line a comparison through the API server: the ratios, and those that are wanted."""
    bare = results.through[NOTHING]
    rows = []
    for one in COMPARISONS:
        added = {
            name: {P50: [a - b for a, b in zip(samples[P50], bare[P50], strict=True)]}
            for name in (one.setting, one.to)
            if (samples := results.through.get(name))
        }
        rows.append(
            [
                one.name,
                fixed(ratio(results.through, RATE, one.setting, one.to), 2),
                f"{one.least_rate:.2f} or more",
                fixed(ratio(added, P50, one.setting, one.to), 2),
                "" if one.most_added is None else f"{one.most_added:.2f} or less",
            ]
        )
    return table(["compared", "x writes/s", "wanted", "x added to p50", "wanted"], rows)


def heading(results: Results) -> str:
    """What was measured, when, and on what."""
    machine = ", ".join(f"{name} {value}" for name, value in results.machine.items())
    commit = f", commit {results.commit}" if results.commit else ""
    return f"{results.date}{commit}. {machine}.\n{results.reviews}."


def performance(results: Results) -> str:
    """What docs/performance.md shows."""
    return "\n\n".join((heading(results), THROUGH_LEGEND, through_table(results)))


def decided(results: Results) -> str:
    """What docs/decide.md shows: each figure, and where in RESULTS.md it comes from."""
    rows = [
        (f"ms that a write takes longer, half of all and 99 %: {what}", _added(results, name))
        for what, name in DECIDED.items()
    ]
    lives, objects = results.growth.get(LIVES.key, {}), results.growth.get(OBJECTS.key, {})
    cost = [middle(lives.get(GENGUARD, {}), f"{step.name}/cpu_us") for step in LIVES.steps]
    memory = middle(objects.get(GENGUARD, {}), f"{MOST_OBJECTS:,}/rss_mb")
    rows += [
        ("CPU µs of a review, calm and storm", " and ".join(fixed(one, 0) for one in cost)),
        (f"MB of memory in use with {MOST_OBJECTS:,} objects", fixed(memory, 0)),
    ]
    return table(["measured", "figure"], rows)


def _added(results: Results, name: str) -> str:
    found, bare = results.through.get(name, {}), results.through.get(NOTHING, {})
    cells = []
    for key in (P50, P99):
        value, least = middle(found, key), middle(bare, key)
        cells.append(NOT_MEASURED if value is None or least is None else f"{value - least:+.2f}")
    return " and ".join(cells)


def legend(servers: Mapping[str, object]) -> Iterator[str]:
    """What servers and columns are."""
    for server in SERVERS:
        if server.name in servers:
            yield f"`{server.name}`: {server.about}."
    for text in dict.fromkeys(scenario.legend for scenario in SCENARIOS):
        yield f"{text}."
    yield from _LEGEND


def markdown(results: Results) -> str:
    """The whole of RESULTS.md; equal results give equal text."""
    items = "\n".join(f"- {item}" for item in legend(results.servers))
    parts = [_OPENING, heading(results), main_table(results), items]
    for growth in GROWTHS:
        if growth.key in results.growth:
            parts += [f"## {growth.title}", growth.legend, growth_table(growth, results)]
    if results.through:
        parts += ["## Through the API server", THROUGH_LEGEND, through_table(results)]
        parts += [COMPARED_LEGEND, compared_table(results)]
    if results.start:
        parts += ["## Start of a command", START_LEGEND, start_table(results)]
    return "\n\n".join([*parts, _FURTHER])

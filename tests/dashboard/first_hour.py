"""The steps of a first hour with their times, and the page that has them."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple

from tools.bench.machine import machine_details
from tools.bench.tables import fixed, table

_BEGIN: Final = "<!-- make first-hour writes from here -->\n"
_END: Final = "\n<!-- to here -->"
_HEAD: Final = ("step", "seconds", "at most")


class Step(NamedTuple):
    """What was done or waited for; `limit`: what is promised, None where nothing is."""

    what: str
    seconds: float
    limit: float | None


@dataclass
class Hour:
    """What has been done so far."""

    steps: list[Step] = field(default_factory=list)

    def took(self, what: str, seconds: float, limit: float | None = None) -> None:
        """Add a step; it must have kept what is promised."""
        self.steps.append(Step(what, max(seconds, 0.0), limit))
        assert limit is None or seconds <= limit, self.steps[-1]

    @contextmanager
    def timed(self, what: str) -> Iterator[None]:
        """Add what happens inside as a step."""
        began = time.monotonic()
        yield
        self.took(what, time.monotonic() - began)

    def write(self, page: Path) -> None:
        """Put date, machine and table between the two marks of the page."""
        head, begin, rest = page.read_text("utf-8").partition(_BEGIN)
        _, end, tail = rest.partition(_END)
        assert begin and end, f"{page} has no {_BEGIN.strip()} ... {_END.strip()}"
        page.write_text(f"{head}{begin}\n{self.text()}\n{end}{tail}", "utf-8")

    def text(self) -> str:
        """What the page says of this run."""
        details = machine_details()
        machine = f"{details['cores']} cores, {details['cpu']}, load {details['load']} at the end"
        server = f"kube-apiserver {details['kube-apiserver']}, Python {details['python']}"
        rows = [(one.what, fixed(one.seconds, 1), _limit(one)) for one in self.steps]
        return f"{datetime.now(UTC):%Y-%m-%d}. {machine}. {server}.\n\n{table(_HEAD, rows)}"


def _limit(step: Step) -> str:
    return "" if step.limit is None else fixed(step.limit, 0)

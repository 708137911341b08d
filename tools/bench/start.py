"""How long a command takes from its start to its end, beside a Python that does nothing.

`status` asks a real API server in which the cluster has just begun: most of the time is for what it
loads. `python -m tools.bench --only start` measures this alone.
"""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from tools.bench.processes import children_seconds
from tools.bench.rounds import Samples
from tools.bench.running import REPOSITORY
from tools.bench.scenarios import Effort, WrongAnswersError

WALL_S, CPU_S = "wall_s", "cpu_s"
LEGEND: Final = (
    "From exec to exit, in seconds: the best of all rounds, since what disturbs only ever adds. "
    "What Python has compiled is kept. `status` asks a real API server of an empty cluster."
)
_TAIL: Final = 2_000


class Command(NamedTuple):
    """What is run: arguments of Python, and seconds that it should take; None: nobody says."""

    name: str
    arguments: tuple[str, ...]
    wanted_s: float | None = None
    asks_cluster: bool = False


COMMANDS: Final = (
    Command("python -c pass", ("-c", "pass")),
    Command("genguard --help", ("-m", "webhook", "--help"), 0.25),
    Command("genguard version", ("-m", "webhook", "version"), 0.15),
    Command("genguard status", ("-m", "webhook", "status"), 0.6, asks_cluster=True),
)


def run_start(kubeconfig: Path, effort: Effort, say: Callable[[str], None]) -> Samples:
    """Run every command once a round. Raises WrongAnswersError for one that fails."""
    samples: Samples = {one.name: {WALL_S: [], CPU_S: []} for one in COMMANDS}
    for one in COMMANDS:
        say(f"start: {one.name}")
        _run(one, kubeconfig)  # so that its modules are compiled, and in the page cache
    for _ in range(effort.repeats):
        for one in COMMANDS:
            begun, spent = time.perf_counter(), children_seconds()
            _run(one, kubeconfig)
            samples[one.name][WALL_S].append(time.perf_counter() - begun)
            samples[one.name][CPU_S].append(children_seconds() - spent)
    return samples


def _run(command: Command, kubeconfig: Path) -> None:
    more = (f"--kubeconfig={kubeconfig}",) if command.asks_cluster else ()
    done = subprocess.run(
        [sys.executable, *command.arguments, *more],
        cwd=REPOSITORY,
        env={name: text for name, text in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"},
        capture_output=True,
        check=False,
    )
    if done.returncode != 0:
        told = done.stderr[-_TAIL:].decode(errors="replace")
        raise WrongAnswersError(f"{command.name} exited with {done.returncode}:\n{told}")

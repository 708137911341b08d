"""The run: every server once a round, each time in a fresh process, rounds one after another.

What disturbs a machine lasts longer than one measurement; taking turns spreads it over all servers.
"""

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import certs
from tools.bench.answers import check_all
from tools.bench.corpus import read_corpus
from tools.bench.generator import Generator
from tools.bench.processes import resident_bytes
from tools.bench.running import client_context, running
from tools.bench.scenarios import Context, Effort, Scenario, WrongAnswersError
from tools.bench.servers import Server
from tools.bench.template import make_templates

START_S, IDLE_MB, AFTER_MB = "start_s", "idle_mb", "after_mb"
"""Of every round: seconds from exec to the first handshake; memory then and at the end."""
_MB: Final = 1e6

Samples = dict[str, dict[str, list[float]]]
"""Every number of every round: server → key → one value a round."""


def run_rounds(
    servers: Sequence[Server],
    scenarios: Sequence[Scenario],
    effort: Effort,
    say: Callable[[str], None],
) -> Samples:
    """Measure. Raises ServerFailedError, LoadFailedError and WrongAnswersError."""
    samples: Samples = {}
    with certificate() as folder, Generator() as generator:
        context = Context(generator, folder, effort)
        for number in range(effort.repeats):
            for server in servers:
                say(f"round {number + 1} of {effort.repeats}: {server.name}")
                found = samples.setdefault(server.name, {})
                for key, value in _one(server, scenarios, context):
                    found.setdefault(key, []).append(value)
    return samples


@contextmanager
def certificate() -> Iterator[Path]:
    """A folder with a P-256 pair, the same for all."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        certs.ensure(folder, names=("localhost",), at=datetime.now(UTC))
        yield folder


def _one(
    server: Server, scenarios: Sequence[Scenario], context: Context
) -> Iterator[tuple[str, float]]:
    templates = make_templates(read_corpus(), server.path)
    with running(server, context.folder) as started:
        yield START_S, started.start_seconds
        yield IDLE_MB, resident_bytes(started.pid) / _MB
        wrong = check_all(server, started.port, client_context(context.folder), templates)
        if wrong:
            raise WrongAnswersError("; ".join(wrong))
        for scenario in scenarios:
            yield from scenario.measure(started, context).items()
        yield AFTER_MB, resident_bytes(started.pid) / _MB

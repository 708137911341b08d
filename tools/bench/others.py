"""What genguard costs beside other webhooks: it knows their rules, and asks who may change a write.

They are registered for pods with a condition that is never met: what they would take is not
genguard's, and the API server looks at each of them all the same.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

from tests.controlplane.client import wait_until
from tests.controlplane.plane import ControlPlane
from tools.bench.growth import Growth, Step
from tools.bench.processes import wait_until_quiet
from tools.bench.rounds import Samples, certificate
from tools.bench.running import Running, running
from tools.bench.scenarios import Effort, percentile
from tools.bench.servers import GENGUARD, SERVERS, Listen, Server
from tools.bench.through import ALL_PHASES, MUTATED, MUTATING, registered, write

COUNTS: Final = (0, 5, 20, 50)


def run_others(effort: Effort, say: Callable[[str], None]) -> Samples:
    """Write pods through an API server in all phases, beside so many other webhooks."""
    found: dict[str, list[float]] = {}
    with ExitStack() as stack:
        plane, folder = stack.enter_context(ControlPlane()), stack.enter_context(certificate())
        server = stack.enter_context(running(_knowing(plane.kubeconfig), folder))
        wait_until(lambda: '"message": "serving"' in server.log.read_text(), what="serving")
        for count in COUNTS * effort.repeats:
            say(f"{count} other webhooks")
            with (
                _others(plane, count, server),
                registered(plane, ALL_PHASES, {GENGUARD: server}, folder),
            ):
                for key, value in _measure(plane, server, effort):
                    found.setdefault(f"{count}/{key}", []).append(value)
    return {GENGUARD: found}


OTHERS: Final = Growth(
    "others",
    "Other webhooks",
    "others",
    "Lives of pods through a real API server, one client, all three phases; genguard watches the "
    "registrations. The others are registered for pods with a condition that is never met, so that "
    "their own time is in no number; the API server looks at each of them, in p50 and p99. CPU µs "
    "of genguard for each write.",
    tuple(Step(f"{count}", {}) for count in COUNTS),
    ("cpu_us", "p50_ms", "p99_ms"),
    (GENGUARD,),
    run=run_others,
)


def _knowing(kubeconfig: Path) -> Server:
    (genguard,) = (one for one in SERVERS if one.name == GENGUARD)

    def command(listen: Listen) -> Sequence[str]:
        return (*genguard.command(listen), f"--kubeconfig={kubeconfig}")

    return replace(genguard, command=command, uses_cores=True)


def _measure(plane: ControlPlane, server: Running, effort: Effort) -> Iterator[tuple[str, float]]:
    write(plane.client, effort.warm_up)
    before = wait_until_quiet(server.pid)
    taken = sorted(write(plane.client, effort.seconds))
    yield "cpu_us", (wait_until_quiet(server.pid) - before) / len(taken) * 1e6
    yield "p50_ms", percentile(taken, 0.50) * 1e3
    yield "p99_ms", percentile(taken, 0.99) * 1e3


@contextmanager
def _others(plane: ControlPlane, count: int, server: Running) -> Iterator[None]:
    """Registered, and known to genguard."""
    at = f"/apis/admissionregistration.k8s.io/v1/{MUTATING}"
    names = [f"other-{number:02}.example.org" for number in range(count)]
    for name in names:
        hook = {
            "name": name,
            "admissionReviewVersions": ["v1"],
            "clientConfig": {"url": "https://127.0.0.1:9/change"},
            "rules": [MUTATED],
            "sideEffects": "None",
            "matchConditions": [{"name": "never", "expression": "request.name == 'nobody'"}],
        }
        plane.client.post(at, {"metadata": {"name": name}, "webhooks": [hook]})
    try:
        wait_until(lambda: len(_known(server)) == count, what=f"{count} others known")
        yield
    finally:
        for name in names:
            plane.client.delete(f"{at}/{name}")


def _known(server: Running) -> set[str]:
    """The others that genguard says would be called for a pod."""
    listed = json.loads(server.ops("/api/webhooks?resource=pods&operation=CREATE"))["webhooks"]
    return {one["webhook"] for one in listed if one["webhook"].endswith(".example.org")}

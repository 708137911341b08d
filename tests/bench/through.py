"""What a webhook costs a cluster: the same writes through kube-apiserver, with and without one.

Pods are created, reported on, changed and deleted. That every write was really seen is read from
the API server's own metrics. `python -m tests.bench` does this last of all.
"""

import base64
import itertools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple

from prometheus_client.parser import text_string_to_metric_families

from tests.bench import workload
from tests.bench.rounds import Samples, certificate
from tests.bench.running import Running, running
from tests.bench.scenarios import Effort, WrongAnswersError, percentile
from tests.bench.servers import GENGUARD, GO, servers_named
from tests.controlplane.client import Client, wait_until
from tests.controlplane.plane import ControlPlane

NOTHING: Final = "nothing"
CLIENTS: Final = 8
THROUGH_KEYS: Final = (
    ("p50_ms", "p50 ms", 2),
    ("p99_ms", "p99 ms", 2),
    ("rate", "writes/s", 0),
    ("p99_busy_ms", f"p99 ms, {CLIENTS} clients", 1),
)
LEGEND: Final = (
    "Pods are created, their status and spec patched, and deleted through a real kube-apiserver; "
    "etcd, API server, webhook and clients share the machine. p50 and p99 with one client that "
    f"writes again as soon as it is answered; writes/s with {CLIENTS} of them. In brackets what "
    "is added to nothing registered."
)
_API: Final = "/apis/admissionregistration.k8s.io/v1"
_PODS: Final = "/api/v1/namespaces/default/pods"
_CALLS: Final = "apiserver_admission_webhook_request_total"
_numbers = itertools.count()


class Registration(NamedTuple):
    """One webhook configuration with one webhook; the name decides the order of the calls."""

    kind: str
    name: str
    path: str
    operations: tuple[str, ...] = ("CREATE", "UPDATE")

    @property
    def hook(self) -> str:
        """The webhook's name, as metrics tell it."""
        return f"{self.name}.bench.genguard.io"


_INTENT: Final = Registration("mutatingwebhookconfigurations", "a-intent", "/intent")
_MUTATE: Final = Registration("mutatingwebhookconfigurations", "z-mutate", "/mutate")
_OUTCOME: Final = Registration(
    "validatingwebhookconfigurations", "z-outcome", "/outcome", ("CREATE", "UPDATE", "DELETE")
)


class Setting(NamedTuple):
    """What is registered, and whose it is."""

    name: str
    server: str
    registrations: tuple[Registration, ...]


SETTINGS: Final = (
    Setting(NOTHING, "", ()),
    Setting("go", GO, (_MUTATE,)),
    Setting("genguard: mutate", GENGUARD, (_MUTATE,)),
    Setting("genguard: intent, mutate, outcome", GENGUARD, (_INTENT, _MUTATE, _OUTCOME)),
)


def run_through(plane: ControlPlane, effort: Effort, say: Callable[[str], None]) -> Samples:
    """Measure every setting once a round; setting → key → one value a round.

    Raises ServerFailedError, ApiError and WrongAnswersError.
    """
    samples: Samples = {}
    with certificate() as folder, ExitStack() as started:
        servers = {
            one.name: started.enter_context(running(replace(one, uses_cores=True), folder))
            for one in servers_named((GO, GENGUARD))
            if one.name in (GO, GENGUARD)
        }
        for number in range(effort.repeats):
            for setting in SETTINGS:
                say(f"round {number + 1} of {effort.repeats}: through, {setting.name}")
                with _registered(plane, setting, servers.get(setting.server), folder):
                    found = _measure(plane, setting, effort)
                kept = samples.setdefault(setting.name, {})
                for key, value in found.items():
                    kept.setdefault(key, []).append(value)
    return samples


def _measure(plane: ControlPlane, setting: Setting, effort: Effort) -> Mapping[str, float]:
    _write(plane.client, effort.warm_up)
    before = _calls(plane)
    alone = sorted(_write(plane.client, effort.seconds))
    begun = time.perf_counter()
    with ThreadPoolExecutor(CLIENTS) as pool:
        parts = list(pool.map(lambda _: _write(plane.client, effort.seconds), range(CLIENTS)))
    seconds = time.perf_counter() - begun
    busy = sorted(itertools.chain.from_iterable(parts))
    believe(setting, len(alone) + len(busy), before, _calls(plane))
    return {
        "p50_ms": percentile(alone, 0.50) * 1e3,
        "p99_ms": percentile(alone, 0.99) * 1e3,
        "rate": len(busy) / seconds,
        "p99_busy_ms": percentile(busy, 0.99) * 1e3,
    }


def _write(client: Client, seconds: float) -> Sequence[float]:
    """Lives of pods, one after the other, until the time is over; seconds of each write."""
    taken = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for write in _life(client, f"pod-{next(_numbers)}"):
            begun = time.perf_counter()
            write()
            taken.append(time.perf_counter() - begun)
    return taken


def _life(client: Client, name: str) -> Iterator[Callable[[], object]]:
    """The writes of one pod: made, running, changed, gone."""
    at = f"{_PODS}/{name}"
    ready = {"type": "Ready", "status": "True", "observedGeneration": 1}
    status = {"phase": "Running", "observedGeneration": 1, "conditions": [ready]}
    yield lambda: client.post(_PODS, workload.worker(name))
    yield lambda: client.patch(f"{at}/status", {"status": status})
    yield lambda: client.patch(at, {"spec": {"activeDeadlineSeconds": 1_000}})
    yield lambda: client.delete(at, {"gracePeriodSeconds": 0})


WRITES_OF_A_LIFE: Final = {"CREATE": 1, "UPDATE": 2, "DELETE": 1}


def believe(
    setting: Setting, writes: int, before: Mapping[str, float], after: Mapping[str, float]
) -> None:
    """Raise WrongAnswersError unless each webhook was called for each write that is its."""
    lives = writes / sum(WRITES_OF_A_LIFE.values())
    for one in setting.registrations:
        wanted = lives * sum(WRITES_OF_A_LIFE[operation] for operation in one.operations)
        called = after.get(one.hook, 0.0) - before.get(one.hook, 0.0)
        if called < wanted:
            raise WrongAnswersError(
                f"{setting.name}: {one.hook} was called {called:g} times for {wanted:g} writes"
            )


@contextmanager
def _registered(
    plane: ControlPlane, setting: Setting, server: Running | None, folder: Path
) -> Iterator[None]:
    """Register; returns when the API server calls, and when it calls no longer."""
    client = plane.client
    hooks = {one.hook for one in setting.registrations}
    for one in setting.registrations:
        assert server is not None
        client.post(f"{_API}/{one.kind}", _configuration(one, server, folder))
    try:
        wait_until(lambda: hooks <= _called(plane), what=f"{setting.name} called")
        yield
    finally:
        for one in setting.registrations:
            client.delete(f"{_API}/{one.kind}/{one.name}")
        wait_until(lambda: not hooks & _called(plane), what=f"{setting.name} called no longer")


def _configuration(one: Registration, server: Running, folder: Path) -> workload.Manifest:
    authority = base64.b64encode((folder / "ca.crt").read_bytes()).decode()
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods", "pods/status"]}
    hook: dict[str, Any] = {
        "name": one.hook,
        "admissionReviewVersions": ["v1"],
        "clientConfig": {
            "url": f"https://127.0.0.1:{server.port}{one.path}",
            "caBundle": authority,
        },
        "rules": [{**rule, "operations": list(one.operations)}],
        "sideEffects": "None",
        "failurePolicy": "Fail",  # a call that is lost must not look like a fast one
        "timeoutSeconds": 10,
    }
    return {"metadata": {"name": one.name}, "webhooks": [hook]}


def _called(plane: ControlPlane) -> set[str]:
    """The webhooks that a write calls now."""
    before = _calls(plane)
    probe = workload.worker("probe")
    plane.client.post(_PODS, probe, params={"dryRun": "All"})
    return {name for name, count in _calls(plane).items() if count > before.get(name, 0.0)}


def _calls(plane: ControlPlane) -> Mapping[str, float]:
    """How often each webhook was called and answered well, as the API server counts."""
    text = plane.client.get("/metrics").body
    lines = "".join(f"{line}\n" for line in text.splitlines() if line.startswith(_CALLS))
    found: dict[str, float] = {}
    for family in text_string_to_metric_families(lines):
        for sample in family.samples:
            if sample.labels["code"] == "200":
                name = sample.labels["name"]
                found[name] = found.get(name, 0.0) + sample.value
    return found

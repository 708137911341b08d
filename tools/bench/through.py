"""What webhooks cost a cluster: the same writes through kube-apiserver, with and without them.

Pods are created, reported on, changed and deleted. That every write was really seen is read from
the API server's own metrics. `python -m tools.bench` does this last of all.
"""

import base64
import itertools
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple

from prometheus_client.parser import text_string_to_metric_families

from genguard.admission.matching import Rule
from genguard.admission.review import Phase
from genguard.needed_phases import needs_of, rules_of
from tests.controlplane.client import Client, wait_until
from tests.controlplane.plane import ControlPlane
from tools.bench.rounds import Samples, certificate
from tools.bench.running import Running, running
from tools.bench.scenarios import Effort, WrongAnswersError, percentile
from tools.bench.servers import AUDITING, GENGUARD, GO, SERVERS

NOTHING: Final = "nothing"
CLIENTS: Final = 20
P50, P99, RATE = "p50_ms", "p99_ms", f"rate_{CLIENTS}"
THROUGH_KEYS: Final = (
    (P50, "p50 ms", 2),
    (P99, "p99 ms", 2),
    (RATE, f"writes/s, {CLIENTS} clients", 0),
    (f"p99_ms_{CLIENTS}", f"p99 ms, {CLIENTS} clients", 1),
)
LEGEND: Final = (
    "Pods are created, patched and deleted through a real kube-apiserver. `go` is a Go webhook. "
    f"p50 and p99 with one client, writes/s with {CLIENTS}; in brackets what is added to nothing "
    "registered. `follow`: what `serve --registrations follow` leaves registered. `another "
    "webhook`: the Go webhook in a process of its own, between /intent and /mutate. /outcome is "
    "called for deletions as well, the others are not."
)
COMPARED_LEGEND: Final = (
    "The same as ratios to the Go webhook in genguard's place, the median of the rounds' ratios: "
    f"writes/s with {CLIENTS} clients, and what is added to the p50 of one client where nothing "
    "is registered. Where another webhook mutates, it is registered on both sides."
)
_API: Final = "/apis/admissionregistration.k8s.io/v1"
_PODS: Final = "/api/v1/namespaces/default/pods"
_CALLS: Final = "apiserver_admission_webhook_request_total"
MUTATING: Final = "mutatingwebhookconfigurations"
_VALIDATING: Final = "validatingwebhookconfigurations"
_numbers = itertools.count()


class Registration(NamedTuple):
    """One webhook configuration with one webhook; the name decides the order of the calls."""

    kind: str
    name: str
    server: str
    path: str
    rules: tuple[Rule, ...]

    @property
    def hook(self) -> str:
        """The webhook's name, as metrics tell it."""
        return f"{self.name}.bench.genguard.io"

    @property
    def operations(self) -> frozenset[str]:
        """What it is called for."""
        return frozenset(one for rule in self.rules for one in rule["operations"])


class Setting(NamedTuple):
    """What is registered."""

    name: str
    registrations: tuple[Registration, ...]


class Comparison(NamedTuple):
    """Two settings, and the ratios that are wanted: at least of writes/s, at most of p50."""

    name: str
    setting: str
    to: str
    least_rate: float
    most_added: float | None = None


_PODS_RULE: Final[Rule] = {
    "apiGroups": [""],
    "apiVersions": ["v1"],
    "resources": ["pods", "pods/status"],
}
MUTATED: Final[Rule] = {**_PODS_RULE, "operations": ["CREATE", "UPDATE"]}
_WATCHED: Final[Rule] = {**_PODS_RULE, "operations": ["CREATE", "UPDATE", "DELETE"]}
_OTHER_GO: Final = "other go"


def _phase(phase: Phase, server: str, rules: Iterable[Rule]) -> Registration:
    kind = _VALIDATING if phase is Phase.OUTCOME else MUTATING
    name = f"{'a' if phase is Phase.INTENT else 'z'}-{phase}"
    return Registration(kind, name, server, f"/{phase}", tuple(rules))


def _followed(
    server: str, *, enforcing: bool, others: Sequence[str] = ()
) -> tuple[Registration, ...]:
    """What `serve --registrations follow` leaves registered where `others` mutate."""
    needs = needs_of([_WATCHED], lambda _: others, enforcing=enforcing)
    rules = {phase: rules_of(phase, [_WATCHED], (), needs) for phase in Phase}
    rules[Phase.OUTCOME] = [_WATCHED]
    return tuple(_phase(phase, server, found) for phase, found in rules.items() if found)


_GO: Final = _phase(Phase.MUTATE, GO, [MUTATED])
_ANOTHER: Final = Registration(MUTATING, "m-another", _OTHER_GO, "/mutate", (MUTATED,))
_BESIDE: Final = "another webhook, and "
ALL_PHASES: Final = Setting(
    "genguard: intent, mutate, outcome", _followed(GENGUARD, enforcing=True, others=("unknown",))
)
SETTINGS: Final = (
    Setting(NOTHING, ()),
    Setting("go", (_GO,)),
    Setting("genguard: mutate", (_phase(Phase.MUTATE, GENGUARD, [MUTATED]),)),
    ALL_PHASES,
    Setting("follow, audit-only: outcome", _followed(AUDITING.name, enforcing=False)),
    Setting("follow, enforcing: mutate, outcome", _followed(GENGUARD, enforcing=True)),
    Setting(f"{_BESIDE}go", (_ANOTHER, _GO)),
    Setting(
        f"{_BESIDE}follow: all three",
        (_ANOTHER, *_followed(GENGUARD, enforcing=True, others=(_ANOTHER.hook,))),
    ),
)
DECIDED: Final = {
    "audit-only": SETTINGS[4].name,
    "enforcing": SETTINGS[5].name,
    "all three phases": ALL_PHASES.name,
}
"""Those that docs/decide.md names, and as what."""
COMPARISONS: Final = (
    Comparison("audit-only, nobody else mutates", SETTINGS[4].name, "go", 1.25, 0.8),
    Comparison("enforcing, nobody else mutates", SETTINGS[5].name, "go", 1.05),
    Comparison("another webhook mutates", SETTINGS[7].name, SETTINGS[6].name, 1.0),
)


def run_through(plane: ControlPlane, effort: Effort, say: Callable[[str], None]) -> Samples:
    """Measure every setting once a round; setting → key → one value a round.

    Each round begins with another setting: what grows or slows down with time is in all of them.
    Raises ServerFailedError, ApiError and WrongAnswersError.
    """
    samples: Samples = {one.name: {} for one in SETTINGS}
    known = {one.name: one for one in SERVERS}
    wanted = (known[GO], replace(known[GO], name=_OTHER_GO), known[GENGUARD], AUDITING)
    with certificate() as folder, ExitStack() as started:
        servers = {
            one.name: started.enter_context(running(replace(one, uses_cores=True), folder))
            for one in wanted
        }
        for number in range(effort.repeats):
            first = number % len(SETTINGS)
            for setting in (*SETTINGS[first:], *SETTINGS[:first]):
                say(f"round {number + 1} of {effort.repeats}: through, {setting.name}")
                with registered(plane, setting, servers, folder):
                    found = _measure(plane, setting, effort)
                for key, value in found.items():
                    samples[setting.name].setdefault(key, []).append(value)
    return samples


def _measure(plane: ControlPlane, setting: Setting, effort: Effort) -> Mapping[str, float]:
    write(plane.client, effort.warm_up)
    before = _calls(plane)
    alone = sorted(write(plane.client, effort.seconds))
    begun = time.perf_counter()
    with ThreadPoolExecutor(CLIENTS) as pool:
        parts = list(pool.map(lambda _: write(plane.client, effort.seconds), range(CLIENTS)))
    seconds = time.perf_counter() - begun
    busy = sorted(itertools.chain.from_iterable(parts))
    believe(setting, len(alone) + len(busy), before, _calls(plane))
    numbers = (
        percentile(alone, 0.50) * 1e3,
        percentile(alone, 0.99) * 1e3,
        len(busy) / seconds,
        percentile(busy, 0.99) * 1e3,
    )
    return {key: number for (key, *_), number in zip(THROUGH_KEYS, numbers, strict=True)}


def write(client: Client, seconds: float) -> Sequence[float]:
    """Lives of pods, one after the other, until the time is over; seconds of each write."""
    taken = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for step in _life(client, f"pod-{next(_numbers)}"):
            begun = time.perf_counter()
            step()
            taken.append(time.perf_counter() - begun)
    return taken


def _life(client: Client, name: str) -> Iterator[Callable[[], object]]:
    """The writes of one pod: made, running, changed, gone."""
    at = f"{_PODS}/{name}"
    ready = {"type": "Ready", "status": "True", "observedGeneration": 1}
    status = {"phase": "Running", "observedGeneration": 1, "conditions": [ready]}
    yield lambda: client.post(_PODS, _worker(name))
    yield lambda: client.patch(f"{at}/status", {"status": status})
    yield lambda: client.patch(at, {"spec": {"activeDeadlineSeconds": 1_000}})
    yield lambda: client.delete(at, {"gracePeriodSeconds": 0})


def _worker(name: str) -> dict[str, Any]:
    """A queue worker as teams write it: one container, no port."""
    labels = {
        "app.kubernetes.io/name": name,
        "app.kubernetes.io/part-of": "shop",
        "app.kubernetes.io/managed-by": "kubectl",
    }
    token = {"secretKeyRef": {"name": "orders", "key": "value"}}
    env = {"QUEUE": "orders", "CONCURRENCY": "16", "LOG_LEVEL": "info"}
    container = {
        "name": "worker",
        "image": "registry.example.com/shop/worker:2.7.0",
        "resources": {
            "requests": {"cpu": "100m", "memory": "128Mi"},
            "limits": {"memory": "512Mi"},
        },
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        "env": [
            *({"name": key, "value": value} for key, value in env.items()),
            {"name": "QUEUE_TOKEN", "valueFrom": token},
        ],
    }
    spec = {"containers": [container], "priorityClassName": ""}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": labels, "annotations": {}},
        "spec": spec,
    }


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
def registered(
    plane: ControlPlane, setting: Setting, servers: Mapping[str, Running], folder: Path
) -> Iterator[None]:
    """Register; returns when the API server calls, and when it calls no longer."""
    client = plane.client
    hooks = {one.hook for one in setting.registrations}
    for one in setting.registrations:
        client.post(f"{_API}/{one.kind}", _configuration(one, servers[one.server], folder))
    try:
        wait_until(lambda: hooks <= _called(plane), what=f"{setting.name} called")
        yield
    finally:
        for one in setting.registrations:
            client.delete(f"{_API}/{one.kind}/{one.name}")
        wait_until(lambda: not hooks & _called(plane), what=f"{setting.name} called no longer")


def _configuration(one: Registration, server: Running, folder: Path) -> dict[str, Any]:
    authority = base64.b64encode((folder / "ca.crt").read_bytes()).decode()
    hook: dict[str, Any] = {
        "name": one.hook,
        "admissionReviewVersions": ["v1"],
        "clientConfig": {
            "url": f"https://127.0.0.1:{server.port}{one.path}",
            "caBundle": authority,
        },
        "rules": [*one.rules],
        "sideEffects": "None",
        "failurePolicy": "Fail",  # a call that is lost must not look like a fast one
        "timeoutSeconds": 10,
    }
    return {"metadata": {"name": one.name}, "webhooks": [hook]}


def _called(plane: ControlPlane) -> set[str]:
    """The webhooks that a write calls now."""
    before = _calls(plane)
    probe = _worker("probe")
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

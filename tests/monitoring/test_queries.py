"""Each query of the dashboard and of the rules has data in a real Prometheus of a real run.

The run is `genguard serve` with every flag that adds metrics, beside a real store and a real API
server that is scraped too. It is fed with the recorded reviews of three scenarios, and what only
happens when something is wrong is made to happen: a body that cannot be read, a webhook that is
not there, a store that is lost.
"""

import json
import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.controlplane.client import ApiError, wait_until
from tests.controlplane.plane import ControlPlane
from tests.e2e.culprits import deployment
from tests.e2e.genguard import Genguard
from tests.e2e.registrations import registered
from tests.monitoring.conftest import EVERYTHING, KEPT, from_secret
from tests.monitoring.queries import Query, dashboard_queries, families, rule_selectors
from tests.monitoring.rules import alerts
from tests.monitoring.stack import Prometheus, running
from tests.scenarios import recording
from tests.store.proxy import Proxy
from tests.store.server import StoreServer

SCENARIOS = ("deployment-status-zeroed", "custom-status-zeroed", "scaled-up-and-down")
WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
_RUN_SECONDS = 900
NEVER = {"genguard_dropped_edits_total", "genguard_left_out_total"}
"""Count a bug of genguard's own: exported, and without a series in any run that is whole."""


class Poster:
    """Sends bodies to the admission port as the API server does."""

    def __init__(self, guard: Genguard) -> None:
        self._connection = guard.admission()

    def post(self, phase: str, body: bytes, kind: str = "application/json") -> int:
        self._connection.request("POST", f"/{phase}?timeout=2s", body, {"Content-Type": kind})
        answer = self._connection.getresponse()
        answer.read()
        return answer.status

    def feed(self, name: str) -> None:
        """Every review of a recording, each at its phase."""
        for line in recording.read_lines(name):
            one = json.loads(line)
            assert self.post(one["phase"], json.dumps(one["review"]).encode()) == 200


@contextmanager
def not_there(plane: ControlPlane, namespace: str) -> Iterator[None]:
    """Two webhooks of genguard's names that nobody serves: one is passed over, one refuses."""
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["secrets"]}
    hooks = [
        {
            "name": f"{policy.lower()}.genguard.io",
            "admissionReviewVersions": ["v1"],
            "clientConfig": {"url": "https://127.0.0.1:1/outcome"},
            "failurePolicy": policy,
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
            "rules": [rule],
            "sideEffects": "None",
        }
        for policy in ("Ignore", "Fail")
    ]
    plane.client.post(WEBHOOKS, {"metadata": {"name": "not-there"}, "webhooks": hooks})
    try:
        yield
    finally:
        plane.client.delete(f"{WEBHOOKS}/not-there")


def refused(plane: ControlPlane, namespace: str) -> bool:
    """Whether a write was refused for want of a webhook."""
    try:
        body = {"metadata": {"generateName": "refused-"}}
        plane.client.post(f"/api/v1/namespaces/{namespace}/secrets", body)
    except ApiError:
        return True
    return False


def api_server(plane: ControlPlane) -> dict[str, Any]:
    """A job that scrapes the API server with the administrator's token."""
    user = json.loads(plane.kubeconfig.read_text())["users"][0]["user"]
    return {
        "job_name": "apiserver",
        "scheme": "https",
        "tls_config": {"insecure_skip_verify": True},
        "authorization": {"credentials": user["token"]},
        "static_configs": [{"targets": [urlsplit(plane.server).netloc]}],
    }


def scraped(prometheus: Prometheus, reviews: float) -> None:
    """Waits until Prometheus has seen so many reviews."""
    expression = "sum(genguard_reviews_total)"
    wait_until(lambda: (prometheus.value(expression) or 0) >= reviews, what="a scrape")


@pytest.fixture(scope="module")
def store() -> Iterator[Proxy]:
    """A real store, and a way to it that can be cut."""
    with StoreServer() as server, Proxy(server.socket) as proxy:
        yield proxy


@pytest.fixture(scope="module")
def prometheus(
    apiserver: ControlPlane, store: Proxy, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Prometheus]:
    """Scrapes a run in which everything has happened at least twice, and goes on."""
    where = "test-queries"
    apiserver.client.post("/api/v1/namespaces", {"metadata": {"name": where}})
    deployments = f"/apis/apps/v1/namespaces/{where}/deployments"
    apiserver.client.post(deployments, deployment("web", 1))
    shared = f"--store=valkey://127.0.0.1:{store.port}/0"
    secret = from_secret(apiserver.kubeconfig, tmp_path_factory.mktemp("certs"))
    flags = (f"--kubeconfig={apiserver.kubeconfig}", shared, *EVERYTHING)
    with (
        running() as stack,
        Genguard(*flags) as guard,
        Genguard(KEPT, *secret) as alone,
        registered(apiserver, where, guard),
        not_there(apiserver, where),
    ):
        targets = [urlsplit(one.log_lines("serving")[0]["ops"]).netloc for one in (guard, alone)]
        labels = {"cluster": "one", "namespace": "genguard-system"}
        found = stack.scrape(*targets, jobs=[api_server(apiserver)], **labels)
        poster = Poster(guard)
        wait_until(lambda: guard.metric("genguard_store_up"), what="store asked")
        for round_ in range(2):
            for name in SCENARIOS:
                poster.feed(name)
            poster.post("mutate", b"{")
            poster.post("mutate", b"{}", "text/plain")
            apiserver.client.patch(f"{deployments}/web", {"spec": {"replicas": 2 + round_}})
            wait_until(lambda: refused(apiserver, where), what="a refused write")
            scraped(found, guard.metric("genguard_reviews_total"))
        yield found


def finite(prometheus: Prometheus, expression: str) -> list[float]:
    """The values of now that are numbers."""
    answer = prometheus.get("/api/v1/query", query=expression)
    values = [float(one["value"][1]) for one in answer["data"]["result"]]
    return [value for value in values if math.isfinite(value)]


def had(prometheus: Prometheus, expression: str) -> list[float]:
    """Those of any second since the run began: what makes a rate is over before long."""
    now = time.time()
    span = {"start": f"{now - _RUN_SECONDS}", "end": f"{now}", "step": "1"}
    answer = prometheus.get("/api/v1/query_range", query=expression, **span)
    values = [float(text) for one in answer["data"]["result"] for _, text in one["values"]]
    return [value for value in values if math.isfinite(value)]


@pytest.mark.parametrize("query", dashboard_queries(), ids=lambda query: query.where)
def test_a_query_of_the_dashboard_has_data(prometheus: Prometheus, query: Query) -> None:
    wait_until(lambda: had(prometheus, query.expression), what=query.expression)


@pytest.mark.parametrize("query", rule_selectors(), ids=lambda query: query.where)
def test_what_an_alert_asks_for_has_data(prometheus: Prometheus, query: Query) -> None:
    if families(query.expression) <= NEVER:
        (name,) = families(query.expression)
        described = prometheus.get("/api/v1/targets/metadata", metric=name)["data"]
        assert described, "exported, though it has no series"
        return
    wait_until(lambda: had(prometheus, query.expression), what=query.expression)


def test_every_rule_is_evaluated_without_an_error(prometheus: Prometheus) -> None:
    def evaluated() -> list[dict[str, Any]]:
        groups = prometheus.get("/api/v1/rules")["data"]["groups"]
        rules = [rule for group in groups for rule in group["rules"]]
        return rules if all(rule["health"] != "unknown" for rule in rules) else []

    rules = wait_until(evaluated, what="every rule evaluated")
    assert len(rules) == len(alerts())
    assert not [rule["lastError"] for rule in rules if rule["health"] != "ok"]


def test_what_is_made_to_happen_is_alerted_on(prometheus: Prometheus) -> None:
    """Of those that need no patience."""
    at_once = {"GenguardFailOpen", "GenguardRejected", "GenguardUndecodable"}
    wait_until(
        lambda: at_once <= {one["labels"]["alertname"] for one in prometheus.firing()},
        what="firing",
    )


def test_a_lost_store_is_seen_and_so_is_its_return(prometheus: Prometheus, store: Proxy) -> None:
    """The alert itself waits for five minutes; its expression does not."""
    (rule,) = (rule for rule in alerts() if rule["alert"] == "GenguardStoreLost")
    store.close()
    wait_until(lambda: finite(prometheus, rule["expr"]), what="a lost store")
    store.open()
    wait_until(lambda: not finite(prometheus, rule["expr"]), what="a store that is back")

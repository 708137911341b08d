"""Each long-lived task of a server raises once, is reported with its name, and works again.

The servers run in this process, on a real API server and a real store, since an error has to be
raised within their tasks. TASKS is complete: the servers with every flag start nothing else.
"""

import asyncio
import itertools
import logging
import threading
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final, Self

import pytest

from genguard.versions import SENT_TO_NO_WEBHOOK
from tests.controlplane.client import Client, wait_until
from tests.controlplane.plane import ControlPlane
from tests.e2e.culprits import deployment
from tests.store.proxy import Proxy
from tests.store.server import StoreServer
from tests.throwing import FaultySupervisor
from tests.waiting import PATIENCE
from webhook.serve.app import App, build
from webhook.server.settings import Settings

CLUSTER, AUDIT, STORE = "a cluster", "audit-only", "a shared store"
SINKS = ("log", "events", "alertmanager")
WATCHED = ("pods", "deployments.apps")
RULES, CERTIFICATE = "genguard-rules", "genguard-tasks"
TASKS: Final = {
    "detection": CLUSTER,
    "resolving": CLUSTER,
    "connections and certificate": CLUSTER,
    "watch of custom resources": CLUSTER,
    "watch of webhooks": CLUSTER,
    "watch of registrations": CLUSTER,
    "watch of namespaces": CLUSTER,
    "kinds to watch": CLUSTER,
    "watch of mutatingadmissionpolicies": CLUSTER,
    "watch of mutatingadmissionpolicybindings": CLUSTER,
    "leader election": CLUSTER,
    "watch of own pods": CLUSTER,
    "connections to other pods": CLUSTER,
    "renewal of the certificate": CLUSTER,
    "rules": CLUSTER,
    "look at damaged objects": CLUSTER,
    "saving findings": CLUSTER,
    "registrations that follow need": CLUSTER,
    "look at refused writes": CLUSTER,
    **{f"sink {name}": CLUSTER for name in SINKS},
    **{f"watch {resource}": CLUSTER for resource in WATCHED},
    **{f"versions of {resource}": CLUSTER for resource in (*SENT_TO_NO_WEBHOOK, "nodes")},
    "shared intents": STORE,
    "shared observations": STORE,
    "observations of replicas": STORE,
}
"""The server in which each task runs. "look at the own installation", which reads once and ends,
runs in a pod alone; "publishing" is the task of `publish-status`, in e2e/test_publish_status.py."""


class Server:
    """A server in a thread of this process, with its log."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._ready, self._over = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.log: list[logging.LogRecord] = []

    def __enter__(self) -> Self:
        handler = logging.Handler()
        handler.emit = self.log.append  # type: ignore[method-assign]
        logging.getLogger("genguard").addHandler(handler)
        self._handler = handler
        self._thread.start()
        wait_until(lambda: self._ready.is_set() or not self._thread.is_alive(), what="it serves")
        assert self._ready.is_set(), [one.getMessage() for one in self.log]
        return self

    def __exit__(self, *_: object) -> None:
        self.loop.call_soon_threadsafe(self._end.set)
        self._thread.join(PATIENCE)
        logging.getLogger("genguard").removeHandler(self._handler)

    def _run(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        self.loop, self._end = asyncio.get_running_loop(), asyncio.Event()
        self.supervisor = FaultySupervisor()
        async with build(self._settings, self.supervisor) as app:
            self.app: App = app
            await app.service.start()
            self._ready.set()
            await self._end.wait()
            await app.service.stop()

    def throw_into(self, name: str) -> None:
        self.loop.call_soon_threadsafe(self.supervisor.throw_into, name)

    def ops(self, path: str) -> str:
        url = f"http://127.0.0.1:{self.app.service.ops_port}{path}"
        with urllib.request.urlopen(url, timeout=PATIENCE) as answer:
            text: str = answer.read().decode()
            return text

    def failures(self, name: str) -> float:
        series = f'genguard_task_failures_total{{task="{name}"}} '
        lines = self.ops("/metrics").splitlines()
        return sum(float(line.removeprefix(series)) for line in lines if line.startswith(series))


@pytest.fixture(scope="module")
def servers(
    apiserver: ControlPlane, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Server]]:
    folder = tmp_path_factory.mktemp("tasks")
    rules = {"metadata": {"name": RULES}, "data": {"rules.yaml": "rules: []\n"}}
    apiserver.client.post("/api/v1/namespaces/default/configmaps", rules)
    pair = {"metadata": {"name": CERTIFICATE}, "data": {}}  # empty, as it is installed
    apiserver.client.post("/api/v1/namespaces/default/secrets", pair)
    with ExitStack() as stack:
        store = stack.enter_context(StoreServer())
        address = f"valkey://127.0.0.1:{stack.enter_context(Proxy(store.socket)).port}/0"
        every: dict[str, dict[str, Any]] = {
            CLUSTER: {
                "kubeconfig": str(apiserver.kubeconfig),
                "watch": ",".join(WATCHED),
                "rules": f"configmap:default/{RULES}",
                "cert_secret": CERTIFICATE,
                "cert_dir": None,
                "events": True,
                "heal": True,
                "standby": True,
                "registrations": "follow",
                "alertmanager": ("http://127.0.0.1:1",),
                "findings_configmap": "genguard-findings",
            },
            AUDIT: {
                "kubeconfig": str(apiserver.kubeconfig),
                "audit_only": True,
                "registrations": "follow",
            },
            STORE: {"kubeconfig": str(apiserver.kubeconfig), "store": address, "events": True},
        }
        found = {}
        for name, flags in every.items():
            where = {"cert_dir": Path(folder / name), "secure_port": 0, "ops_port": 0}
            found[name] = stack.enter_context(Server(Settings(**(where | flags))))
        yield found


Check = Callable[[Server, Client], object]
_numbers = itertools.count()


def sees_a_new_deployment(server: Server, client: Client) -> bool:
    name = f"tasks-{next(_numbers)}"
    client.post("/apis/apps/v1/namespaces/default/deployments", deployment(name))
    wait_until(lambda: name in server.ops(f"/api/objects?q={name}"), what=f"{name} is shown")
    return True


def takes_changed_rules(server: Server, client: Client) -> bool:
    """It refuses bad rules, and takes good ones afterwards."""
    path = f"/api/v1/namespaces/default/configmaps/{RULES}"
    for text, refused in (("rules: [{}]", "1.0"), ("rules: []", "0.0")):
        client.patch(path, {"data": {"rules.yaml": text}})
        line = f"genguard_rules_refused {refused}"
        wait_until(lambda line=line: line in server.ops("/metrics"), what=line)
    return True


def learns_a_new_webhook(server: Server, client: Client) -> bool:
    name = f"tasks-{next(_numbers)}"
    path = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
    client.post(path, {"metadata": {"name": name}, "webhooks": [webhook()]})
    try:
        wait_until(lambda: name in server.ops("/api/webhooks?resource=pods"), what=f"{name} known")
    finally:
        client.delete(f"{path}/{name}")
    return True


def webhook() -> dict[str, Any]:
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["*"]}
    return {
        "name": "one.tasks.genguard.io",
        "clientConfig": {"url": "https://127.0.0.1:1/"},
        "failurePolicy": "Ignore",
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "rules": [rule],
    }


def renews_its_lease(_: Server, client: Client) -> bool:
    path = "/apis/coordination.k8s.io/v1/namespaces/default/leases/genguard"
    first = client.get(path).body["spec"]["renewTime"]
    wait_until(lambda: client.get(path).body["spec"]["renewTime"] != first, what="a renewal")
    return True


WORKS: Final[dict[str, Check]] = {
    "watch deployments.apps": sees_a_new_deployment,
    "rules": takes_changed_rules,
    "watch of webhooks": learns_a_new_webhook,
    "leader election": renews_its_lease,
}
"""What only a task that works can do. Of the others it counts that they run and fail no more."""


def test_the_table_has_every_task_of_a_server(servers: dict[str, Server]) -> None:
    started = {name for server in servers.values() for name in server.supervisor.every}
    assert set(TASKS) <= started
    # Custom resources are watched as they come.
    assert all(name.startswith("versions of ") for name in started - set(TASKS))


@pytest.mark.parametrize("name", TASKS)
def test_a_task_that_fails_is_reported_and_works_again(
    servers: dict[str, Server], apiserver: ControlPlane, name: str
) -> None:
    server = servers[TASKS[name]]
    wait_until(lambda: server.supervisor.runs.get(name), what="its start")
    before, runs = server.failures(name), server.supervisor.runs[name]
    server.throw_into(name)
    wait_until(lambda: server.supervisor.runs[name] > runs, what="its next start")
    wait_until(lambda: server.failures(name) == before + 1, what="its failure is counted")
    (line,) = [one for one in server.log if getattr(one, "fields", {}).get("task") == name]
    assert line.getMessage() == "task failed"
    text = f"{name} failed once with InjectedError"
    assert text in server.ops("/readyz")
    assert text in server.ops("/")
    if check := WORKS.get(name):
        wait_until(lambda: check(server, apiserver.client), what=f"{name} works again")
    assert server.failures(name) == before + 1, "it goes on"

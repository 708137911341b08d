"""No content of an object is told anywhere: canaries in, none out.

What may be told: names (of objects, namespaces, users, webhooks, field managers, conditions), paths
of fields, generations, counts, times, words that Kubernetes defines for examining (a phase, a
condition's status and reason); of values that were written numbers, booleans and such words. The
store that replicas share holds the values of the fields that `--restore` names, and may hold names
by which items of a list are told apart. In a path, a key of a map is a field's name like any other.
"""

import http.client
import json
import re
import ssl
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urljoin, urlsplit

import pytest
from click.testing import CliRunner

from genguard.admission.review import Phase
from tests.collector import collecting
from tests.confidential.planted import (
    CANARY,
    HEADERS,
    LAST,
    LOOPS,
    LOST,
    NAMED,
    RESTORED,
    SCENES,
    WHERE,
    audit_log,
    existing,
    reviews,
)
from tests.controlplane.client import wait_until
from tests.controlplane.plane import ControlPlane
from tests.e2e.genguard import Genguard
from tests.scenarios.expecting import expectations
from tests.scenarios.recording import DEFINITIONS
from tests.store.alertmanager import Alertmanager
from tests.store.proxy import Proxy
from tests.store.server import StoreServer
from webhook.cli import main

_PAGES = 200
_DATA = (
    "/metrics",
    "/api/broken",
    "/api/findings",
    "/api/objects",
    "/api/webhooks",
    "/api/terminating",
    "/api/server",
)
"""What programs and spreadsheets read; `data_of_findings` is the rest."""
_EVERYTHING = (
    "--log-level=DEBUG",
    f"--restore=status.observedGeneration,status.conditions[*].observedGeneration,{RESTORED}",
    "--generation-patch=always",
)


_REGISTERED = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
_OF_PODS: dict[str, Any] = {
    "metadata": {"name": "strips"},
    "webhooks": [
        {
            "name": "strips.example.org",
            "clientConfig": {"url": "https://127.0.0.1:1/"},
            "rules": [
                {
                    "apiGroups": [""],
                    "apiVersions": ["*"],
                    "operations": ["CREATE"],
                    "resources": ["pods"],
                }
            ],
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": SCENES[0]}},
            "failurePolicy": "Ignore",
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
        }
    ],
}
"""Where webhooks are known, as those of other tests are, creations that none may change are not
compared: the first scene has one of its own."""


class Told:
    """All that a server has told, by where."""

    def __init__(self) -> None:
        self.by_place: dict[str, str] = {}

    def add(self, place: str, text: str | bytes) -> None:
        self.by_place[place] = text if isinstance(text, str) else text.decode("utf-8", "replace")

    def leaks(self) -> dict[str, set[str]]:
        """The canaries by place."""
        found = re.compile(rf"(?:{CANARY}|{NAMED})\w*", re.IGNORECASE)
        leaks = {place: set(found.findall(text)) for place, text in self.by_place.items()}
        return {place: words for place, words in leaks.items() if words}


def call_all(guard: Genguard) -> Iterator[dict[str, Any]]:
    """The response to every planted review, on one connection."""
    trust = ssl.create_default_context(cafile=str(guard.folder / "certs" / "ca.crt"))
    connection = http.client.HTTPSConnection(
        "127.0.0.1", guard.admission_port, timeout=30, context=trust
    )
    headers = {"Content-Type": "application/json", **HEADERS}
    try:
        for phase, review in reviews():
            connection.request("POST", f"/{phase}?token={CANARY}Query", json.dumps(review), headers)
            answer = json.load(connection.getresponse())
            assert answer["response"]["allowed"], answer
            yield answer["response"]
    finally:
        connection.close()


def told_by(guard: Genguard, told: Told, *unknown: str) -> None:
    """Its answers but for the patches, which go where the objects came from; then every page."""
    answers = list(call_all(guard))
    told.add("answers", json.dumps([{**one, "patch": None} for one in answers]))
    wait_until(lambda: LAST in {one["object"]["resource"] for one in findings(guard)}, what=LAST)
    for path in (*_DATA, *data_of_findings(guard)):
        status, text = guard.ops(path)
        assert status == 200 or path.startswith("/api/object?"), path  # it may be gone
        told.add(path, text)
    for path, page in pages(guard):
        told.add(path, page)
    told.add("/api/changes", guard.ops("/api/changes")[1])
    found = findings(guard)
    expected = expectations()
    assert {one["detector"] for one in found} >= {
        one["detector"] for scene in expected.values() for one in scene.find
    } - {*unknown}
    assert {path for one in found for path in one["paths"]} >= LOOPS


def findings(guard: Genguard) -> list[dict[str, Any]]:
    return guard.findings()


def data_of_findings(guard: Genguard) -> Iterator[str]:
    """The path of each finding, and of what is known of its object."""
    for one in findings(guard):
        yield f"/api/findings/{one['id']}"
        if one.get("object"):
            names = {key: one["object"][key] for key in ("group", "resource", "namespace", "name")}
            yield f"/api/object?{urlencode(names)}"


def pages(guard: Genguard) -> Iterator[tuple[str, str]]:
    """The dashboard, link by link."""
    seen, waiting = set(), ["/", "/objects"]
    while waiting and len(seen) < _PAGES:
        path = waiting.pop(0)
        if path in seen:
            continue
        seen.add(path)
        _, page = guard.ops(path)
        yield path, page
        for link in re.findall(r'href="([^"#]+)"', page):
            target = urljoin(path, unescape(link))
            if not urlsplit(target).netloc and not target.startswith("/static"):
                waiting.append(target)


def finish(guard: Genguard, told: Told) -> None:
    """Ends it, for what is written at the end, and reads what it logged."""
    guard.stop(at_once=True)
    told.add("log", json.dumps(guard.log_lines()))


def test_connected_and_with_a_file_nothing_of_an_object_is_told(apiserver: ControlPlane) -> None:
    told, events = Told(), f"/apis/events.k8s.io/v1/namespaces/{WHERE}/events"
    for scene in SCENES:
        named = {"metadata": {"name": scene}}
        apiserver.client.post("/api/v1/namespaces", named, check=False)
    for collection, found in existing().items():
        apiserver.client.post(collection, found)
    apiserver.client.post(_REGISTERED, _OF_PODS)
    with (
        Alertmanager() as alertmanager,
        collecting() as collector,
        Genguard(
            *_EVERYTHING,
            f"--kubeconfig={apiserver.kubeconfig}",
            "--events",
            "--watch=pods,replicasets.apps,deployments.apps,configmaps",
            "--object-metrics=100",
            "--store=sqlite:state.db",
            f"--alertmanager={alertmanager.url}",
            f"--alertmanager=http://admin:{CANARY}Url@127.0.0.1:1",
            environment={
                "OTEL_EXPORTER_OTLP_ENDPOINT": collector.http_endpoint,
                "OTEL_EXPORTER_OTLP_HEADERS": f"authorization=Bearer%20{CANARY}Otel",
            },
        ) as guard,
    ):
        wait_until(lambda: guard.metric("genguard_watch_current") == 4, what="watches")
        told_by(guard, told)
        wait_until(lambda: apiserver.client.get(events).body["items"], what="Events")
        wait_until(lambda: alertmanager.alerts, what="alerts")
        finish(guard, told)
        told.add("Events", json.dumps(apiserver.client.get(events).body))
        told.add("alerts", json.dumps(alertmanager.alerts))
        assert collector.spans("genguard")
        told.add("spans", collector.raw)
        for path in guard.folder.glob("state.db*"):
            told.add(path.name, path.read_bytes())
    for collection, found in existing().items():
        apiserver.client.delete(f"{collection}/{found['metadata']['name']}")
    apiserver.client.delete(f"{_REGISTERED}/strips")
    assert f'{{deployment="web",namespace="{WHERE}"}}' in told.by_place["/metrics"]
    assert {"log", "answers", "state.db"} < set(told.by_place)
    assert "alertmanager not reached" in told.by_place["log"]
    assert told.leaks() == {}


def test_replicas_share_nothing_of_an_object_but_what_restore_names(
    apiserver: ControlPlane,
) -> None:
    told = Told()
    with (
        StoreServer() as store,
        Proxy(store.socket) as proxy,
        Genguard(
            *_EVERYTHING,
            "--audit-only",
            f"--crds={DEFINITIONS}",
            "--flip-status=gauges.example.org",
            f"--store=valkey://127.0.0.1:{proxy.port}/0",
            f"--kubeconfig={apiserver.kubeconfig}",
        ) as guard,
    ):
        wait_until(lambda: guard.metric("genguard_store_up") == 1, what="store asked")
        # No webhook is registered here, and a phase is observed before the store returns others.
        told_by(guard, told, "field-stripped")
        stored = repr([contents(store, key) for key in store.run("KEYS", "*")])
        finish(guard, told)
    assert told.leaks() == {}
    told.add("store", stored)
    assert {word for word in told.leaks()["store"] if not word.startswith(NAMED)} == {LOST}


@pytest.mark.nightly
def test_with_show_values_texts_are_shown_but_none_of_a_secret() -> None:
    with Genguard(*_EVERYTHING, "--show-values", f"--crds={DEFINITIONS}") as guard:
        told = Told()
        told_by(guard, told)
        found = findings(guard)
        secret = [one for one in found if one["object"]["resource"] == LAST]
        names = {key: secret[0]["object"][key] for key in ("resource", "namespace", "name")}
        timeline = guard.ops(f"/api/object?{urlencode(names)}")[1]
        finish(guard, told)
    assert CANARY in told.by_place["/api/findings"], "the flag does what it says"
    assert secret
    assert all(one["diff"]["fields"] for one in secret)
    assert CANARY not in json.dumps(secret)
    assert '"hidden"' in timeline
    assert CANARY not in timeline
    assert {"log", "/metrics", "answers"}.isdisjoint(told.leaks())


@pytest.mark.parametrize("output", ["json", "table"])
def test_replay_tells_nothing_of_an_audit_log_or_a_recording(tmp_path: Path, output: str) -> None:
    audit, recorded = tmp_path / "audit.log", tmp_path / "recording.ndjson"
    audit.write_bytes(b"".join(audit_log()))
    lines = [{"time": "2026-01-01T00:00:00Z", "phase": one, "review": it} for one, it in reviews()]
    recorded.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    told = Told()
    for path in (audit, recorded):
        command = ["replay", "-o", output, "--crds", str(DEFINITIONS), str(path)]
        done = CliRunner().invoke(main, command)
        # A line of a review has its patch, which puts back what the object had.
        shown = [line for line in done.stdout.splitlines() if not _is_review(line)]
        assert len(shown) > 10
        told.add(path.name, "\n".join((*shown, done.stderr)))
    for kind in ("widget/one", "deploy/web", "pod/one"):
        for more in ([], ["-o", "json"]):
            done = CliRunner().invoke(main, ["blame", "-f", str(audit), "-n", WHERE, kind, *more])
            told.add(f"blame {kind} {more}", done.output)
    assert "spec.size" in told.by_place["blame widget/one []"]
    # A report of who wrote which field names each key of a map, as paths do.
    leaks = {word for words in told.leaks().values() for word in words}
    assert {word for word in leaks if not word.endswith("Key")} == set()
    assert {place.split()[0] for place in told.leaks()} <= {"blame"}


def _is_review(line: str) -> bool:
    return line.startswith(('{"type":"review"', *Phase))


def contents(store: StoreServer, key: bytes) -> Any:
    """All of a key; DUMP would compress it."""
    read = {
        b"string": ("GET", key),
        b"hash": ("HGETALL", key),
        b"list": ("LRANGE", key, 0, -1),
        b"set": ("SMEMBERS", key),
        b"zset": ("ZRANGE", key, 0, -1),
        b"stream": ("XRANGE", key, "-", "+"),
        b"none": ("ECHO", ""),  # it has expired
    }
    return key, store.run(*read[store.run("TYPE", key)])

"""genguard's spans are part of the traces of a real API server."""

import json
from pathlib import Path
from urllib.parse import urlsplit

from tests.collector import SeenSpan, collecting
from tests.controlplane.client import wait_until
from tests.controlplane.fixtures import NamespaceFactory
from tests.controlplane.granting import SYSTEM
from tests.controlplane.options import Options
from tests.controlplane.plane import ControlPlane
from tests.e2e.genguard import ROOT, Genguard
from tests.e2e.registrations import registered
from tests.readme.commands import Shell, commands_of
from webhook.telemetry.spans import asks_for_spans

CONTENT = "kingfisher"


def test_each_span_has_that_of_the_api_server_as_its_parent(
    tmp_path: Path, namespace: NamespaceFactory
) -> None:
    with collecting(grpc=True) as collector:
        tracing = tmp_path / "tracing.json"
        kind = {"apiVersion": "apiserver.config.k8s.io/v1beta1", "kind": "TracingConfiguration"}
        sampled = {"endpoint": collector.grpc_endpoint, "samplingRatePerMillion": 1_000_000}
        tracing.write_text(json.dumps(kind | sampled))
        environment = {
            "OTEL_EXPORTER_OTLP_ENDPOINT": collector.http_endpoint,
            "OTEL_SERVICE_NAME": "genguard-of-test",
            "OTEL_BSP_SCHEDULE_DELAY": "200",
        }
        flags = (f"--tracing-config-file={tracing}",)
        with (
            ControlPlane(Options(apiserver_flags=flags)) as plane,
            Genguard(environment=environment) as guard,
        ):
            shop = namespace(plane)
            with registered(plane, shop, guard):
                path = f"/apis/apps/v1/namespaces/{shop}/deployments"
                plane.client.post(path, deployment())

            def ours() -> list[SeenSpan]:
                every = collector.spans("genguard-of-test")
                return [one for one in every if one.attributes.get("genguard.name") == "web"]

            wait_until(lambda: len(ours()) >= 3, what="genguard's spans")
            mine = {one.name: one for one in ours()}
            assert mine.keys() == {"genguard intent", "genguard mutate", "genguard outcome"}

            def parents() -> dict[str, SeenSpan]:
                return {one.id: one for one in collector.spans("apiserver")}

            wait_until(
                lambda: {one.parent for one in mine.values()} <= parents().keys(),
                what="the API server's spans",
            )
            for span in mine.values():
                above = parents()[span.parent]
                assert above.trace == span.trace
                assert above.start <= span.start <= span.end <= above.end
                assert span.attributes["genguard.phase"] == span.name.removeprefix("genguard ")
                assert span.attributes["genguard.resource"] == "deployments.apps"
                assert span.attributes["genguard.operation"] == "CREATE"
                assert span.attributes["k8s.namespace.name"] == shop
            decided = {
                phase: (attributes["genguard.decision"], attributes["genguard.edits"])
                for phase, attributes in (
                    (one.attributes["genguard.phase"], one.attributes) for one in mine.values()
                )
            }
            # Without a cluster genguard also sets metadata.generation, which is one edit.
            assert decided == {
                "intent": ("allowed", 0),
                "mutate": ("patched", 1),
                "outcome": ("allowed", 0),
            }
            assert len({one.trace for one in mine.values()}) == 1  # one write, one trace
            own = b"".join(str(one).encode() for one in collector.spans("genguard-of-test"))
            assert CONTENT.encode() not in own
            wait_until(lambda: guard.metric("genguard_spans_total", result="sent") >= 3)
            assert guard.metric("genguard_spans_total", result="failed") == 0


def test_the_documented_commands_point_the_pods_at_a_collector(tmp_path: Path) -> None:
    with ControlPlane() as plane:
        plane.client.post("/api/v1/namespaces", {"metadata": {"name": SYSTEM}})
        for name in ("deployment", "network"):
            plane.kubectl(
                "apply", "-f", str(ROOT / "manifests" / "base" / "server" / f"{name}.yaml")
            )
        shell = Shell(tmp_path, plane.kubeconfig)
        for command in commands_of("traces.md"):
            shell.run(command)
        path = f"/apis/apps/v1/namespaces/{SYSTEM}/deployments/genguard"
        (container,) = plane.client.get(path).body["spec"]["template"]["spec"]["containers"]
        environment = {one["name"]: one["value"] for one in container["env"]}
        assert asks_for_spans(environment)
        path = f"/apis/networking.k8s.io/v1/namespaces/{SYSTEM}/networkpolicies/genguard"
        *_, last = plane.client.get(path).body["spec"]["egress"]
        port = urlsplit(environment["OTEL_EXPORTER_OTLP_ENDPOINT"]).port
        assert last["ports"] == [{"port": port, "protocol": "TCP"}]


def deployment() -> dict[str, object]:
    labels = {"app": "web"}
    container = {
        "name": "web",
        "image": "registry.example/web:1",
        "env": [{"name": "TOKEN", "value": CONTENT}],
    }
    return {
        "metadata": {"name": "web", "annotations": {"example.org/note": CONTENT}},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }

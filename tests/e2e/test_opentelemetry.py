"""genguard's spans are part of the traces of a real API server."""

import json
from pathlib import Path

import pytest

from tests.collector import SeenSpan, collecting
from tests.controlplane.client import wait_until
from tests.controlplane.fixtures import NamespaceFactory
from tests.controlplane.options import Options
from tests.controlplane.plane import ControlPlane
from tests.e2e.genguard import Genguard
from tests.e2e.registrations import registered

pytestmark = pytest.mark.xdist_group("apiserver")

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

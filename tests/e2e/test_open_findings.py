"""Every verb says that a finding is open, also of an object that is Green."""

import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import pytest
from click.testing import CliRunner, Result

from tests.controlplane.client import wait_until
from tests.controlplane.fixtures import NamespaceFactory
from tests.controlplane.plane import ControlPlane
from tests.controlplane.webhook_listener import Patch, WebhookListener
from tests.e2e.culprits import deployment
from tests.e2e.genguard import Genguard
from tests.e2e.registrations import registered
from webhook.cli import main

TEAM = "example.org/team"
FIELD = f"metadata.annotations[{TEAM}]"
STRIPS = "mmm-strips/reviews.example.org"


def strips(request: Mapping[str, Any]) -> Patch:
    """Removes an annotation, whoever asks for it."""
    metadata = (request.get("object") or {}).get("metadata", {})
    if TEAM not in (metadata.get("annotations") or {}):
        return ()
    return [{"op": "remove", "path": f"/metadata/annotations/{TEAM.replace('/', '~1')}"}]


class Scene(NamedTuple):
    """A Deployment `cart` that is well, whose annotation a webhook strips; and its finding."""

    plane: ControlPlane
    namespace: str
    guard: Genguard
    finding: str

    def run(self, verb: str, *arguments: str, server: bool = True) -> Result:
        flags = (f"--server={self.guard.ops_url}",) if server else ()
        kubeconfig = f"--kubeconfig={self.plane.kubeconfig}"
        return CliRunner().invoke(main, [verb, *arguments, kubeconfig, *flags])


@pytest.fixture
def scene(cluster: ControlPlane, namespace: NamespaceFactory) -> Iterator[Scene]:
    name = namespace(cluster)
    path = f"/apis/apps/v1/namespaces/{name}/deployments"
    with (
        Genguard("--audit-only", f"--kubeconfig={cluster.kubeconfig}") as guard,
        WebhookListener(cluster.authority, strips) as listener,
        listener.registered(cluster, name, ("deployments",), name="mmm-strips"),
        registered(cluster, name, guard),
    ):
        cluster.client.post(path, deployment("cart", 1))

        def found() -> str | None:
            body = {"metadata": {"annotations": {TEAM: "shop"}}}
            cluster.client.patch(f"{path}/cart", body)
            listed = json.loads(guard.ops("/api/findings?severity=warning")[1])["findings"]
            return listed[0]["id"] if listed else None

        finding = wait_until(found, 90.0, every=0.5, what="a finding")
        here = (f"--namespace={name}", "--timeout=60s")
        cluster.kubectl("rollout", "status", "deployment/cart", *here)
        yield Scene(cluster, name, guard, finding)


def test_status_is_green_and_says_what_is_open(scene: Scene) -> None:
    here = ("deploy/cart", "-n", scene.namespace)
    told = scene.run("status", *here)
    row = next(line for line in told.stdout.splitlines() if line.startswith("Deployment/cart"))
    assert "Green" in row
    assert STRIPS in told.stdout
    assert f"genguard explain finding/{scene.finding}" in told.stdout
    assert "1 finding is open about what is shown" in told.stderr
    assert told.exit_code == 1
    waited = scene.run("wait", *here, "--timeout=60s")
    assert "1 finding is open about what is shown" in waited.output
    assert waited.exit_code == 0
    (cart, *owned) = map(json.loads, scene.run("status", *here, "-o", "json").stdout.splitlines())
    assert (cart["health"], cart["culprits"][0]["finding"]) == ("Green", scene.finding)
    assert all(not one["culprits"] for one in owned)
    assert scene.run("status", *here, server=False).exit_code == 0, "nobody was asked"


def test_blame_names_who_removed_what_is_not_there(scene: Scene) -> None:
    here = ("deploy/cart", "-n", scene.namespace, "-o", "json")
    (row,) = json.loads(scene.run("blame", here[0], FIELD, *here[1:]).stdout)["fields"]
    assert (row["field"], row["removed"]) == (FIELD, True)
    assert [one["name"] for one in row["changedBy"]] == [STRIPS]
    assert row["findings"] == [scene.finding]
    whole = json.loads(scene.run("blame", *here).stdout)
    assert FIELD in [one["field"] for one in whole["fields"]]
    assert not any("remembers no write" in one for one in whole.get("notes", ()))

"""`genguard explain` beside a real API server: its kinds, custom resources, and as a plugin."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from genguard.generation.table import load_table
from genguard.objects.served import read_resources
from tests.controlplane.build import binary
from tests.controlplane.fixtures import NamespaceFactory
from tests.controlplane.plane import ControlPlane
from tests.e2e.custom import served
from tests.e2e.genguard import ROOT
from webhook.cli import main


def explain(plane: ControlPlane, resource: str, *flags: str) -> dict[str, Any]:
    where = ["--kubeconfig", str(plane.kubeconfig), "--context", "genguard-tests"]
    result = CliRunner().invoke(main, ["explain", resource, "-o", "json", *where, *flags])
    assert result.exit_code == 0, result.output
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def test_a_custom_resource_of_the_cluster_is_explained_by_its_definition(
    every_api: ControlPlane, namespace: NamespaceFactory
) -> None:
    where = namespace(every_api)
    with (
        served(every_api, where, status_subresource=True) as apart,
        served(every_api, where, status_subresource=False) as together,
    ):
        found = explain(every_api, apart.resource)
        assert found["statusSubresource"] == "present"
        assert found["generation"]["excluded"] == ["metadata", "status"]
        found = explain(every_api, together.resource)
        assert found["statusSubresource"] == "absent"
        # What the page says is what the server does.
        made = together.create(status={"a": 1})
        assert together.put(made, status={"a": 2})["metadata"]["generation"] == 2
        made = apart.create(status={"a": 1})
        assert apart.put(made, status={"a": 2})["metadata"]["generation"] == 1


def test_the_rules_are_those_of_the_clusters_version(every_api: ControlPlane) -> None:
    running = every_api.client.get("/version").body["gitVersion"]
    assert running.startswith(f"v{explain(every_api, 'pods')['serverVersion'].removeprefix('v')}")
    assert explain(every_api, "pods", "--server-version=1.32")["serverVersion"] == "1.32"


def test_names_and_scopes_of_the_table_are_those_of_discovery(every_api: ControlPlane) -> None:
    table = load_table()
    rows = {(row.group, row.resource): row for row in table.rows if row.persisted}
    groups = every_api.client.get("/apis").body["groups"]
    built_in = {group for group, _ in rows}  # a definition that is going away may be listed still
    versions = [
        one["preferredVersion"]["groupVersion"] for one in groups if one["name"] in built_in
    ]
    compared = set()
    for version in ("v1", *versions):
        path = f"/apis/{version}" if "/" in version else f"/api/{version}"
        for one in read_resources(version, every_api.client.get(path).body):
            row = rows.get(one.of)
            if row is not None:
                expected = (one.kind, one.singular, set(one.short_names), one.namespaced)
                names = (row.kind, row.kind.lower(), set(row.short_names), row.namespaced)
                assert names == expected, row.name
                strategy = table.find(*one.of)
                assert strategy is not None
                assert one.has_status is ("status" in strategy.subresources), row.name
                compared.add(one.of)
    assert len(compared) >= 60


def test_as_a_plugin_of_the_real_kubectl(every_api: ControlPlane, tmp_path: Path) -> None:
    program = tmp_path / "kubectl-genguard"
    program.write_text(
        f"#!{sys.executable}\nimport sys\nsys.path.insert(0, {str(ROOT)!r})\n"
        "from webhook.cli import plugin\nplugin()\n"
    )
    program.chmod(0o755)
    env = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "KUBECONFIG": str(every_api.kubeconfig)}

    def kubectl(*words: str) -> subprocess.CompletedProcess[str]:
        command = [str(binary("kubectl")), "genguard", *words]
        return subprocess.run(
            command, env={**os.environ, **env}, capture_output=True, text=True, check=False
        )

    done = kubectl("explain", "deploy", "--context", "genguard-tests")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("Deployment  deployments.apps\n")
    done = kubectl("explain", "deploy", "--context", "nowhere")
    assert done.returncode == 1
    assert "nowhere" in done.stderr
    done = kubectl("status", "--nothing")
    assert done.stderr == "Error: No such option '--nothing'; see kubectl genguard status --help\n"

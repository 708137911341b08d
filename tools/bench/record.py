"""Makes `corpus.ndjson.gz` again: `python -m tools.bench.record`, on a real control plane.

genguard itself records, in audit-only mode, what the API server sends while pods live and die: the
bytes are kept as they came. Everything in them is made up by workload.py.
"""

import base64
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.controlplane.client import wait_until
from tests.controlplane.options import FULL_CLUSTER
from tests.controlplane.plane import ControlPlane
from tools.bench import workload
from tools.bench.corpus import FILE, Recorded, mean_bytes, read_corpus, write_corpus
from tools.bench.running import free_port
from tools.bench.selection import select

_NAMESPACE = "shop"
_PODS = f"/api/v1/namespaces/{_NAMESPACE}/pods"
_HOOKS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"


def main() -> int:
    """Record, choose, write."""
    with (
        tempfile.TemporaryDirectory() as folder,
        ControlPlane(FULL_CLUSTER) as plane,
        _recording(plane, Path(folder)) as recording,
    ):
        _live(plane)
        recorded = [one for one in read_corpus(recording) if b'"dryRun":true' not in one.body]
    chosen = select(recorded)
    write_corpus(chosen)
    print(f"{len(recorded)} reviews recorded, {len(chosen)} kept in {FILE.name}:", _facts(chosen))
    return 0


def _facts(chosen: tuple[Recorded, ...]) -> str:
    sizes = sorted(len(one.body) for one in chosen)
    packed = FILE.stat().st_size
    return f"{sizes[0]} to {sizes[-1]} bytes, mean {mean_bytes(chosen):.0f}, packed {packed}"


@contextmanager
def _recording(plane: ControlPlane, folder: Path) -> Iterator[Path]:
    """Run genguard with a recording, in force for the pods of one namespace."""
    port, recording = free_port(), folder / "recording.ndjson"
    command = [sys.executable, "-m", "webhook", "serve", "--audit-only"]
    command += [f"--cert-dir={folder}", f"--secure-port={port}", "--ops-port=0"]
    command += [f"--record={recording}", "--log-level=WARNING"]
    plane.client.post("/api/v1/namespaces", {"metadata": {"name": _NAMESPACE}})
    account = f"/api/v1/namespaces/{_NAMESPACE}/serviceaccounts/default"
    wait_until(lambda: plane.client.get(account).body)
    server = subprocess.Popen(command)
    try:
        wait_until(lambda: (folder / "ca.crt").exists(), what="genguard's certificate")
        authority = base64.b64encode((folder / "ca.crt").read_bytes()).decode()
        plane.client.post(_HOOKS, _configuration(f"https://127.0.0.1:{port}/mutate", authority))
        wait_until(lambda: _in_force(plane, recording), what="genguard in force")
        yield recording
    finally:
        server.kill()
        server.wait()


def _configuration(url: str, authority: str) -> workload.Manifest:
    hook = {
        "name": "mutate.genguard.io",
        "admissionReviewVersions": ["v1"],
        "clientConfig": {"url": url, "caBundle": authority},
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": _NAMESPACE}},
        "rules": [
            {
                "apiGroups": [""],
                "apiVersions": ["v1"],
                "operations": ["*"],
                "resources": ["pods", "pods/status"],
            }
        ],
        "sideEffects": "None",
        "failurePolicy": "Ignore",
        "timeoutSeconds": 5,
    }
    return {"metadata": {"name": "genguard"}, "webhooks": [hook]}


def _in_force(plane: ControlPlane, recording: Path) -> bool:
    probe = workload.worker("probe")
    plane.client.post(_PODS, probe, params={"dryRun": "All"})
    return recording.stat().st_size > 0


def _live(plane: ControlPlane) -> None:
    """Everything that happens to pods: made, scheduled, run, changed, ended."""
    kinds = {"front": workload.web, "queue": workload.worker, "static": workload.site}
    deployments = {**kinds, "small": workload.task}
    for name, made in deployments.items():
        _kubectl(plane, "apply", workload.deployment(made(name), replicas=3))
    for name, made in (("single", workload.web), ("postgres", workload.database)):
        _kubectl(plane, "apply", made(name))
    _kubectl(plane, "apply --server-side", workload.site("applied"))
    for name, made in (("direct", workload.worker), ("one-task", workload.task)):
        plane.client.post(_PODS, made(name))
    for index in range(3):
        _kubectl(plane, "create", workload.batch(f"report-{index}"))
    bare = ["single", "postgres", "applied", "direct", "one-task"]
    pods = " ".join(f"pod/{name}" for name in bare)
    _kubectl(plane, f"wait --for=condition=Ready --timeout=60s {pods}")
    for name in deployments:
        _kubectl(plane, f"rollout status --timeout=60s deployment/{name}")
    for name in bare:
        _kubectl(plane, f"label pod {name} tier=backend")
        _kubectl(plane, f"annotate pod {name} example.com/reviewed-by=someone")
        plane.client.patch(f"{_PODS}/{name}", {"spec": {"activeDeadlineSeconds": 86_400}})
        _forget_observed_generation(plane, name)
    _kubectl(plane, f"set image pod single server={workload.REGISTRY}/shop/storefront:4.18.3")
    _kubectl(plane, f"set image pod one-task task={workload.REGISTRY}/shop/task:1.0.1")
    _kubectl(plane, "rollout restart deployment/front")
    _kubectl(plane, "rollout status --timeout=60s deployment/front")
    _kubectl(plane, f"delete --grace-period=1 --wait=false {pods}")
    _kubectl(plane, "delete deployment --all")
    wait_until(lambda: not _alive(plane), timeout=90, what="every pod is gone")
    time.sleep(0.5)  # the recording's thread


def _forget_observed_generation(plane: ControlPlane, name: str) -> None:
    """Write a status as a controller does that was built before the field existed."""

    def written() -> bool:
        found = plane.client.get(f"{_PODS}/{name}").body
        for place in (found["status"], *found["status"]["conditions"]):
            place.pop("observedGeneration", None)
        return plane.client.put(f"{_PODS}/{name}/status", found).status == 200

    wait_until(written)  # until no kubelet writes in between


def _alive(plane: ControlPlane) -> list[str]:
    names = [one["metadata"]["name"] for one in plane.client.get(_PODS).body["items"]]
    return [name for name in names if not name.startswith("report-")]


def _kubectl(plane: ControlPlane, verb: str, manifest: workload.Manifest | None = None) -> None:
    given = () if manifest is None else ("--filename=-",)
    stdin = None if manifest is None else workload.text(manifest)
    plane.kubectl(*verb.split(), *given, f"--namespace={_NAMESPACE}", stdin=stdin)


if __name__ == "__main__":
    sys.exit(main())

"""`genguard status` and `wait` on one namespace, beside what the API server showed and when."""

import json
from collections.abc import Callable, Mapping
from typing import Any

from click.testing import CliRunner, Result

from tests.controlplane.client import STRATEGIC_MERGE_PATCH, wait_until
from tests.controlplane.plane import ControlPlane
from tests.e2e.verbs import Verb
from webhook.cli import main

Json = dict[str, Any]
State = Mapping[str, Json]
"""What is there by its path in the namespace: `{"pods/web-1": {...}}`."""
GATE = "genguard.io/open"


class Shop:
    """One namespace: what is done in it, and what genguard says of it."""

    def __init__(self, plane: ControlPlane, namespace: str) -> None:
        self.plane, self.namespace = plane, namespace

    def path(self, at: str) -> str:
        """`pods/web`, `apps/v1/deployments/web/status`."""
        group, rest = at.split("/v1/") if "/v1/" in at else ("", at)
        root = f"/apis/{group}/v1" if group else "/api/v1"
        return f"{root}/namespaces/{self.namespace}/{rest}"

    def create(self, collection: str, body: Json) -> Json:
        made: Json = self.plane.client.post(self.path(collection), body).body
        return made

    def change(self, at: str, **spec: Any) -> Json:
        """A strategic patch of the spec: a template keeps what is not named."""
        changed: Json = self.plane.client.patch(
            self.path(at), {"spec": spec}, content_type=STRATEGIC_MERGE_PATCH
        ).body
        return changed

    def get(self, at: str) -> Json:
        found: Json = self.plane.client.get(self.path(at)).body
        return found

    def open(self, *, count: int) -> None:
        """Lets so many pods become ready that have the readiness gate GATE."""

        def closed() -> list[str]:
            return [
                one["metadata"]["name"]
                for one in self.get("pods")["items"]
                if one["spec"].get("readinessGates")
                and GATE not in {each["type"] for each in one["status"].get("conditions", ())}
            ]

        names = wait_until(lambda: len(closed()) >= count and closed(), what=f"{count} pods")
        for name in names[:count]:
            body = {"status": {"conditions": [{"type": GATE, "status": "True"}]}}
            path = self.path(f"pods/{name}/status")
            self.plane.client.patch(path, body, content_type=STRATEGIC_MERGE_PATCH)

    def force(self) -> None:
        """Ends at once every pod that is being deleted, as a node that is gone for good."""
        for one in self.get("pods")["items"]:
            if "deletionTimestamp" in one["metadata"]:
                path = self.path(f"pods/{one['metadata']['name']}")
                self.plane.client.delete(path, {"gracePeriodSeconds": 0}, check=False)

    def rollout(self, target: str) -> str:
        """What `kubectl rollout status` says at this moment."""
        here = f"--namespace={self.namespace}"
        done = self.plane.kubectl("rollout", "status", target, "--watch=false", here, check=False)
        return done.stdout + done.stderr

    def run(self, *words: str) -> Result:
        """`genguard status` in this process."""
        flags = ["--kubeconfig", str(self.plane.kubeconfig), "-n", self.namespace]
        return CliRunner().invoke(main, ["status", *words, *flags])

    def tree(self, *words: str) -> list[Json]:
        """The objects that are asked for, and what they own."""
        result = self.run(*words, "-o", "json")
        assert result.exit_code == 0, result.output
        return [json.loads(line) for line in result.stdout.splitlines()]

    def status(self, target: str) -> Json:
        """Of one object."""
        return self.tree(target)[0]

    def until(self, target: str, **wanted: Any) -> Json:
        """Asks until the answer has these values."""

        def answers() -> Json | None:
            found = self.status(target)
            return found if wanted.items() <= found.items() else None

        return wait_until(answers, what=f"{target} {wanted}")

    def verb(self, *words: str) -> Verb:
        """Runs it as a process, in the namespace."""
        return Verb(self.plane, *words, "-n", self.namespace)

    def wait(self, *words: str) -> Verb:
        return self.verb("wait", *words)

    def watch(self, *words: str) -> Verb:
        return self.verb("status", *words, "-w", "-o", "json")

    def shows(self, true: Callable[[State], object], *collections: str) -> bool:
        """Whether something is true of what the API server has now in these."""
        state = {
            f"{one.rpartition('/')[2]}/{found['metadata']['name']}": found
            for one in collections
            for found in self.get(one)["items"]
        }
        return bool(true(state))

"""What a server sees before somebody looks at its dashboard."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from genguard.admission.matching import Registration, read_configurations
from genguard.detection.mutators import Mutators
from genguard.objects.fields import fields_of
from tests.contract.service import Running
from tests.reviews import KINDS, make_review

OLD_OPERATOR = "mmm-old-operator"
UP = {
    "replicas": 3,
    "updatedReplicas": 3,
    "readyReplicas": 3,
    "availableReplicas": 3,
    "conditions": [{"type": "Available", "status": "True"}],
}


def registered() -> tuple[Registration, ...]:
    """genguard's own three but the validating one, and two others in between."""
    return read_configurations(
        [
            configuration("0--genguard-intent", "intent.genguard.io", "/intent"),
            configuration("zzzzzz-genguard-mutate", "mutate.genguard.io", "/mutate"),
            configuration(OLD_OPERATOR, "status.example.org", "/fix", "deployments/status"),
            configuration("nnn-sidecars", "inject.example.org", "/add", "pods"),
            configuration("zzzzzzz-late", "late.example.org", "/late", "*/*"),
        ]
    )


def configuration(name: str, webhook: str, path: str, *resources: str) -> dict[str, Any]:
    rule = {
        "apiGroups": ["*"],
        "apiVersions": ["*"],
        "operations": ["CREATE", "UPDATE"],
        "resources": list(resources or ("deployments", "deployments/status", "pods/status")),
    }
    client = {"service": {"namespace": "some", "name": "some", "path": path}}
    hook = {"name": webhook, "clientConfig": client, "rules": [rule]}
    return {"kind": "MutatingWebhookConfiguration", "metadata": {"name": name}, "webhooks": [hook]}


def mutators() -> Mutators:
    return Mutators(registered())


class Story:
    """Writes as they come from an API server, one after the other; a watch shows each."""

    def __init__(self, run: Running) -> None:
        self._run = run
        self._version = 10
        self._statuses: dict[str, dict[str, Any]] = {}

    async def write(
        self,
        *,
        name: str = "web",
        generation: int = 1,
        stored: dict[str, Any],
        sent: dict[str, Any],
        came: dict[str, Any] | None = None,
        out: dict[str, Any] | None = None,
        user: str = "system:serviceaccount:kube-system:deployment-controller",
        uid: str = "",
    ) -> None:
        """A status write in its three phases.

        came  what another webhook has made of it; out: what is stored
        """
        self._version += 1
        metadata = {
            "name": name,
            "namespace": "shop",
            "uid": uid or f"uid-{name}",
            "generation": generation,
            "resourceVersion": str(self._version),
        }
        old = {"metadata": metadata, "spec": {"replicas": 3}, "status": stored}
        for phase, status in (("intent", sent), ("mutate", came or sent), ("outcome", out or sent)):
            asked = make_review(
                new={**old, "status": status}, old=old, subresource="status", name=name, user=user,
                options={"fieldManager": "kube-controller-manager"},
            )  # fmt: skip
            asked["request"]["namespace"] = "shop"
            answer = await self._run.post(json.dumps(asked).encode(), f"/{phase}")
            assert answer.status == 200, answer.body
        self._show("deployments", {**old, "status": out or came or sent})

    async def spec(
        self,
        *,
        name: str = "web",
        generation: int,
        replicas: int,
        was: int = 1,
        user: str = "alice@example.org",
        manager: str = "kubectl",
    ) -> None:
        """A change of spec; generation moves to `generation`."""
        self._version += 1
        metadata = {
            "name": name,
            "namespace": "shop",
            "uid": f"uid-{name}",
            "resourceVersion": str(self._version),
        }
        for phase in ("intent", "mutate", "outcome"):
            now = generation if phase == "outcome" else generation - 1
            old = {
                "metadata": {**metadata, "generation": generation - 1},
                "spec": {"replicas": was},
            }
            new = {"metadata": {**metadata, "generation": now}, "spec": {"replicas": replicas}}
            options = {"fieldManager": manager}
            asked = make_review(new=new, old=old, name=name, user=user, options=options)
            asked["request"]["namespace"] = "shop"
            await self._run.post(json.dumps(asked).encode(), f"/{phase}")
        self._show("deployments", new)

    def _show(self, resource: str, found: dict[str, Any]) -> None:
        """As a watch shows what was stored."""
        self._version += 1
        group, version, _, kind = KINDS[resource]
        uid = found["metadata"]["uid"]
        status = found.get("status", self._statuses.get(uid, {}))
        self._statuses[uid] = status
        metadata = {**found["metadata"], "namespace": "shop", "resourceVersion": str(self._version)}
        api_version = f"{group}/{version}" if group else version
        whole = {**found, "apiVersion": api_version, "kind": kind}
        name = f"{resource}.{group}" if group else resource
        self._run.watching.seen(name, fields_of({**whole, "metadata": metadata, "status": status}))

    async def fought(self, times: int = 10) -> None:
        """An autoscaler and Argo CD set spec.replicas against each other."""
        account = "system:serviceaccount"
        for turn in range(times):
            if turn % 2:
                user, manager = (
                    f"{account}:argocd:argocd-application-controller",
                    "argocd-controller",
                )
            else:
                user, manager = f"{account}:kube-system:horizontal-pod-autoscaler", "kcm"
            was, replicas = ((3, 5), (5, 3))[turn % 2]
            await self.spec(
                generation=turn + 2, was=was, replicas=replicas, user=user, manager=manager
            )
        await self._run.caught_up()

    async def cleared(
        self, times: int, name: str = "web", generation: int = 1, *, is_lost: bool = False
    ) -> None:
        """A webhook drops the observedGeneration of a Deployment, again and again.

        is_lost  genguard does not put it back
        """
        for turn in range(times):
            stored = {"replicas": turn + 1, "conditions": _conditions(turn)}
            sent = {
                "replicas": turn + 1,
                "observedGeneration": generation,
                "conditions": _conditions(turn),
            }
            came = {"replicas": turn + 1, "conditions": _conditions(turn)}
            out = came if is_lost else sent
            await self.write(
                name=name, generation=generation, stored=stored, sent=sent, came=came, out=out
            )
        await self._run.caught_up()

    async def caught_up(self) -> None:
        """Wait until all writes were examined."""
        await self._run.caught_up()

    def family(self) -> None:
        """A ReplicaSet of the Deployment `web`, and three pods of it, one of which is not ready."""
        self._owned("replicasets", "web-7d9", "web", {"replicas": 3})
        for name, ready in (("a", "True"), ("b", "True"), ("c", "False")):
            conditions = [{"type": "Ready", "status": ready}]
            status = {"phase": "Running", "conditions": conditions}
            self._owned("pods", f"web-7d9-{name}", "web-7d9", status)

    def _owned(self, resource: str, name: str, owner: str, status: dict[str, Any]) -> None:
        reference = {"uid": f"uid-{owner}", "kind": "Any", "name": owner, "controller": True}
        metadata = {
            "name": name,
            "namespace": "shop",
            "uid": f"uid-{name}",
            "generation": 1,
            "ownerReferences": [reference],
        }
        found = {"metadata": metadata, "spec": {"replicas": 3, "selector": {}}}
        self._show(resource, {**found, "status": {"observedGeneration": 1, **status}})


def _conditions(turn: int) -> list[dict[str, str]]:
    return [{"type": "Available", "status": "True" if turn % 2 else "False"}]


WATCHED = ("pods", "replicasets.apps", "deployments.apps")


def watched(run: Running, *, pods: int) -> None:
    """A Deployment whose ReplicaSet has so many terminating pods, and whose status says 1."""
    for resource in WATCHED:
        run.watching.current(resource, is_current=True)
    selector = {"matchLabels": {"app": "web"}}
    status = {"replicas": 0, "terminatingReplicas": 1}
    _see(run, "deployments.apps", "Deployment", "web", "", selector=selector, status=status)
    _see(run, "replicasets.apps", "ReplicaSet", "web-7d9", "Deployment/web", selector=selector)
    for number in range(pods):
        _see(run, "pods", "Pod", f"web-7d9-{number}", "ReplicaSet/web-7d9", going=number)


def _see(
    run: Running,
    resource: str,
    kind: str,
    name: str,
    owner: str,
    *,
    selector: dict[str, Any] | None = None,
    status: dict[str, Any] | None = None,
    going: int | None = None,
) -> None:
    above, _, whose = owner.partition("/")
    references = [{"kind": above, "uid": f"uid-{whose}", "controller": True}] if owner else []
    metadata = {
        "name": name,
        "namespace": "shop",
        "uid": f"uid-{name}",
        "generation": 1,
        "resourceVersion": "100",
        "labels": {"app": "web"},
        "ownerReferences": references,
    }
    spec: dict[str, Any] = {"selector": selector or {}, "replicas": 0}
    if going is not None:
        # One has time left, the next two are overdue, of which one has a finalizer; and so on.
        late = datetime.now(UTC) + timedelta(seconds=20 - going % 3 * 600)
        metadata |= {
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "deletionTimestamp": f"{late:%Y-%m-%dT%H:%M:%SZ}",
            "deletionGracePeriodSeconds": 30,
            "finalizers": ["example.org/cleanup"] if going % 3 == 1 else [],
        }
        spec["nodeName"] = f"node-{going % 7}.example.org"
    document = {
        "apiVersion": "v1" if resource == "pods" else "apps/v1",
        "kind": kind,
        "metadata": metadata,
        "spec": spec,
        "status": status or {},
    }
    raw = {key: msgspec.Raw(msgspec.json.encode(value)) for key, value in document.items()}
    run.watching.seen(resource, raw)

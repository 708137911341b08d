"""A cluster that is upgraded and rolled back while genguard is asked: what it says at each step."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, Self

from click.testing import CliRunner

from tests.controlplane.client import STRATEGIC_MERGE_PATCH, Client, wait_until
from tests.controlplane.nodes import node
from tests.controlplane.options import Options
from tests.controlplane.plane import ControlPlane
from tests.e2e.audit import AuditTrail, said
from tests.e2e.balancer import Balancer
from tests.e2e.culprits import pod
from tests.e2e.genguard import Genguard
from tests.e2e.registrations import registered, rule
from tests.versions.kubelet import OWNED, Json, Kubelet
from webhook.cli import main

NAMESPACE = "default"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
_MOST_SYNCS = 2
"""After these a kubelet has nothing to write; one that has still is in KEP-5067's endless loop."""
Numbers = tuple[int | None, int | None]
"""metadata.generation and status.observedGeneration; None where there is none."""


class Upgrade:
    """One or two API servers over the same storage; genguard knows the one that it is led to.

    `api` is who is asked unless another is named.
    """

    def __init__(self, plane: ControlPlane) -> None:
        self.plane, self.api = plane, plane.client
        self._known_to = plane.client
        self._stack = ExitStack()
        self._kubelets: dict[str, Kubelet] = {}
        self._generations: dict[str, int] = {}
        self._read = 0
        self._trails = [
            AuditTrail(plane, NAMESPACE, path) for path in (plane.audit_log, plane.second_audit_log)
        ]

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            turns = iter(lambda: self._known_to.port, None)
            self._balancer = stack.enter_context(Balancer(turns))
            config = json.loads(self.plane.kubeconfig.read_text())
            (cluster,) = config["clusters"]
            cluster["cluster"]["server"] = f"https://127.0.0.1:{self._balancer.port}"
            path = self.plane.folder / "balanced.kubeconfig"
            path.write_text(json.dumps(config))
            self.guard = stack.enter_context(Genguard(f"--kubeconfig={path}"))
            stack.enter_context(
                registered(
                    self.plane,
                    NAMESPACE,
                    self.guard,
                    rules=[rule(["pods"], ["DELETE"])],  # for the annotation of /mutate
                    failurePolicy="Fail",
                    timeoutSeconds=10,
                )
            )
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: object
    ) -> None:
        try:
            self._stack.close()
        except ConnectionError:
            # Where a step failed the API server may be down, and that is not what went wrong.
            if error is None:
                raise

    @contextmanager
    def step(self, what: str) -> Iterator[None]:
        """Whatever fails in it says in which step it was."""
        try:
            yield
        except BaseException as error:
            error.add_note(f"step: {what}")
            raise

    def lead_genguard_to(self, api: Client, *, counts: bool) -> None:
        """Its connections are broken, and it comes to this API server.

        `counts`: whether that gives pods a generation; returns when genguard predicts so.
        """
        self._known_to = api
        self._balancer.drop()

        def knows() -> bool:
            api.post(PODS, pod("asked"), params={"dryRun": "All"})
            last = self._events("asked")[-1]
            return ("generation" in said(last)) is counts

        wait_until(knows, 90, every=0.3, what="genguard knows the version")

    def add(self, kubelet: Kubelet, version: str) -> None:
        """A node with the kubelet of a version."""
        made = node(0)
        made["metadata"]["name"] = kubelet.node
        made["status"]["nodeInfo"]["kubeletVersion"] = version
        self.api.post("/api/v1/nodes", made)

    def create(self, name: str, on: Kubelet, api: Client | None = None) -> None:
        """A pod that a kubelet runs."""
        body = pod(name)
        body["spec"]["nodeName"] = on.node
        (api or self.api).post(PODS, body)
        self._kubelets[name] = on

    def update(self, name: str, image: int, api: Client | None = None) -> None:
        """Another image."""
        body = {"spec": {"containers": [{"name": "c", "image": f"image:{image}"}]}}
        kind = STRATEGIC_MERGE_PATCH
        (api or self.api).patch(f"{PODS}/{name}", body, content_type=kind)

    def delete(self, name: str) -> None:
        """Gracefully: it is there until its kubelet ends it."""
        self.api.delete(f"{PODS}/{name}")

    def end(self, name: str) -> None:
        """What a kubelet does when the containers of a deleted pod have ended."""
        self.api.delete(f"{PODS}/{name}", {"gracePeriodSeconds": 0})
        del self._kubelets[name]

    def clear(self, name: str) -> int | None:
        """A client that does not know the number writes it away; returns what is left of it."""
        client = self.api.as_user("old-controller", ["system:masters"])
        body = {"status": {"observedGeneration": None}}
        found = client.patch(f"{PODS}/{name}/status", body).body["status"]
        return found.get("observedGeneration")  # type: ignore[no-any-return]

    def act(self, *names: str, api: Client | None = None, settles: bool = True) -> int:
        """The kubelets look at these pods, or at all of theirs; returns how often they wrote.

        `settles`: they come to an end.
        """
        written = 0
        for name in names or self._kubelets:
            kubelet = self._kubelets[name]
            path = f"{PODS}/{name}"
            syncs = 0
            while kubelet.sync(api or self.api, path):
                syncs += 1
                if syncs > _MOST_SYNCS:
                    assert not settles, f"{kubelet.user} writes {name} for ever"
                    break
            else:
                assert settles, f"{kubelet.user} has nothing more to write of {name}"
            written += syncs
        return written

    def shows(self, expected: Mapping[str, Numbers], api: Client | None = None) -> None:
        """These numbers are stored, and each condition of the kubelet's has the same as status."""
        found = {}
        for name in expected:
            stored = (api or self.api).get(f"{PODS}/{name}").body
            status = stored["status"]
            own = status.get("observedGeneration")
            conditions = {one["type"]: one for one in status["conditions"]}
            observed = {conditions[name].get("observedGeneration") for name in OWNED}
            assert observed == {own}, f"{name}: {status}"
            found[name] = (stored["metadata"].get("generation"), own)
        assert found == dict(expected), found

    def is_right(
        self, *, but: Sequence[str] = (), unsettled: Mapping[str, tuple[str, ...]] | None = None
    ) -> None:
        """Every write since the last time was predicted, and every pod is ready and settled.

        but        what was not predicted, in the order of the writes
        unsettled  the pods that are not settled, and why
        """
        unpredicted = list(self._unpredicted())
        assert unpredicted == list(but), unpredicted
        found = {name: (settled, reasons) for name, settled, reasons in self._verdicts()}
        expected = dict.fromkeys(self._kubelets, (True, ()))
        expected |= {name: (False, why) for name, why in (unsettled or {}).items()}
        assert found == expected, found

    def _verdicts(self) -> Iterator[tuple[str, bool, tuple[str, ...]]]:
        """Whether each pod is ready and settled, and what blocks, as `genguard status` has it."""
        items = [self.api.get(f"{PODS}/{name}").body for name in self._kubelets]
        text = json.dumps({"apiVersion": "v1", "kind": "List", "items": items})
        result = CliRunner().invoke(main, ["status", "-f", "-", "-o", "json"], input=text)
        for line in map(json.loads, result.stdout.splitlines()):
            yield line["name"], line["ready"] and line["settled"], tuple(line["reasons"])

    def _unpredicted(self) -> Iterator[str]:
        """Holds what was predicted for each write since the last time against what was stored."""
        events = self._events()
        for event in events[self._read :]:
            is_write = event["verb"] in ("create", "update", "patch", "delete")
            if not is_write or event["requestURI"].endswith("dryRun=All"):
                continue
            metadata = event["responseObject"]["metadata"]
            name, stored = metadata["name"], metadata.get("generation", 0)
            told = said(event).get("generation")
            foretold = int(told.split()[0]) if told else self._generations.get(name, 0)
            if foretold != stored:
                yield f"{event['verb']} {name}: {foretold} predicted, {stored} stored"
            self._generations[name] = stored
        self._read = len(events)

    def findings(self) -> dict[tuple[str, str], Json]:
        """Every finding so far, by detector and pod."""
        found = self.guard.findings()
        return {(one["detector"], one["object"]["name"]): one for one in found}

    def _events(self, name: str = "") -> list[Json]:
        """Every request about pods so far, or about one of them, in order of time."""
        found = [one for trail in self._trails for one in trail.all_events()]
        found.sort(key=lambda one: one["stageTimestamp"])
        return [
            one
            for one in found
            if one["objectRef"]["resource"] == "pods"
            and one.get("responseStatus", {}).get("code", 0) < 400
            and name in ("", one["objectRef"].get("name"), _name(one))
        ]


def _name(event: Json) -> str:
    return str((event.get("responseObject") or {}).get("metadata", {}).get("name", ""))


def options(**changes: Any) -> Options:
    """An API server whose log has each answer."""
    return Options(audit_level="RequestResponse", start_timeout=120.0, **changes)

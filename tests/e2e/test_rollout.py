"""The case to win: a webhook that clobbers status makes a healthy rollout hang for ever."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.controlplane.client import wait_until
from tests.controlplane.fixtures import NamespaceFactory
from tests.controlplane.plane import ControlPlane
from tests.controlplane.webhook_listener import WebhookListener
from tests.e2e.audit import AuditTrail, patched_by
from tests.e2e.culprits import OLD_OPERATOR, deployment, zeroes_observed_generation
from tests.e2e.genguard import Genguard
from tests.e2e.registrations import registered

MENDS = "genguard_mends_total"


@contextmanager
def old_operator(plane: ControlPlane, name: str) -> Iterator[WebhookListener]:
    with (
        WebhookListener(plane.authority, zeroes_observed_generation) as culprit,
        culprit.registered(plane, name, ["deployments/status"], name=OLD_OPERATOR),
    ):
        yield culprit


class Web:
    """The Deployment `web` of one namespace, and how users wait for it."""

    def __init__(self, plane: ControlPlane, namespace: str) -> None:
        self.plane, self.namespace = plane, namespace
        self.path = f"/apis/apps/v1/namespaces/{namespace}/deployments"

    def create(self) -> None:
        self.plane.client.post(self.path, deployment("web"))

    def set_image(self, image: str) -> None:
        self.plane.kubectl("set", "image", "deployment/web", f"c={image}", self._here)

    def touch(self) -> None:
        # A label, for a Deployment's annotations count as its spec does.
        self.plane.kubectl("label", "deployment/web", "touched=yes", self._here)

    def get(self) -> dict[str, Any]:
        found: dict[str, Any] = self.plane.client.get(f"{self.path}/web").body
        return found

    def available(self, image: str) -> dict[str, Any]:
        """Waits until both replicas are, as anybody who looks at the pods can see."""

        def is_available() -> dict[str, Any] | None:
            pods = self.plane.client.get(f"/api/v1/namespaces/{self.namespace}/pods").body["items"]
            current = [each for each in pods if each["spec"]["containers"][0]["image"] == image]
            found = self.get()
            status = found["status"]
            counts = [status.get(f"{word}Replicas") for word in ("available", "updated", "ready")]
            return found if len(current) == 2 and counts == [2, 2, 2] else None

        return wait_until(is_available, what=f"two available replicas of {image}")

    def rollout(self, timeout: str) -> tuple[int, str]:
        done = self.plane.kubectl(
            "rollout", "status", "deployment/web", self._here, f"--timeout={timeout}", check=False
        )
        return done.returncode, done.stdout + done.stderr

    def completes(self) -> None:
        code, said = self.rollout("60s")
        assert code == 0, said
        assert "successfully rolled out" in said

    def hangs(self) -> None:
        code, said = self.rollout("3s")
        assert code == 1, said
        assert "timed out waiting" in said
        assert "spec update to be observed" in said

    @property
    def _here(self) -> str:
        return f"--namespace={self.namespace}"


def test_with_genguard_the_first_rollout_and_the_next_complete(
    cluster: ControlPlane, namespace: NamespaceFactory
) -> None:
    web = Web(cluster, namespace(cluster))
    trail = AuditTrail(cluster, web.namespace)
    with (
        old_operator(cluster, web.namespace) as culprit,
        Genguard() as guard,
        registered(cluster, web.namespace, guard),
    ):
        web.create()
        web.completes()
        assert web.available("image:1")["status"]["observedGeneration"] == 1
        web.set_image("image:2")
        web.completes()
        assert web.available("image:2")["status"]["observedGeneration"] == 2
        assert culprit.reviews
        mended = guard.metric(MENDS, rule="restore-intent", resource="deployments.apps", mode="did")
        assert mended >= 2
        assert not guard.metric(MENDS, mode="would")
    writes = trail.events("deployments/status", name="web")
    said = {each.get("restore-intent") for each in trail.said("deployments/status", name="web")}
    assert {f"set status.observedGeneration={number}" for number in (1, 2)} <= said
    assert {"0"} == {number for write in writes for number in patched_by(write)}


def test_with_audit_only_it_hangs_and_log_metrics_and_audit_say_why(
    cluster: ControlPlane, namespace: NamespaceFactory
) -> None:
    web = Web(cluster, namespace(cluster))
    trail = AuditTrail(cluster, web.namespace)
    with (
        old_operator(cluster, web.namespace),
        Genguard("--audit-only") as guard,
        registered(cluster, web.namespace, guard),
    ):
        for number in (1, 2):
            if number == 1:
                web.create()
            else:
                web.set_image("image:2")
            assert "observedGeneration" not in web.available(f"image:{number}")["status"]
            web.hangs()
            would = f"would set status.observedGeneration={number}"
            said = trail.said("deployments/status", name="web")
            assert would in {each.get("restore-intent") for each in said}
        assert guard.metric(MENDS, rule="restore-intent", resource="deployments.apps", mode="would")
        assert not guard.metric(MENDS, mode="did")
        (first, *_) = wait_until(lambda: guard.log_lines("would repair"))
        assert first["rule"] == "restore-intent"
        assert first["set"] == {"status.observedGeneration": 1}
        assert (first["resource"], first["subresource"]) == ("deployments", "status")
        assert (first["namespace"], first["name"]) == (web.namespace, "web")
        assert not guard.log_lines("repaired")
    assert not any(map(patched_by, trail.events("deployments/status", name="web")))

"""A standby takes over: no write fails, few are unguarded, and what was lost is put back."""

import json
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.controlplane.client import wait_until
from tests.controlplane.fixtures import NamespaceFactory
from tests.controlplane.plane import ControlPlane
from tests.e2e.account import Account, account
from tests.e2e.culprits import deployment
from tests.e2e.genguard import Genguard
from tests.e2e.registrations import registered
from tests.e2e.standbys import Pod, StatusWriter, standing_by
from tests.e2e.test_rollout import old_operator
from tests.waiting import PATIENCE

HOME = "genguard-standby"
WRITERS = 3
TIMEOUT = 2
"""timeoutSeconds in manifests/base/registrations."""
SLACK = 10
"""On a slow machine all is late: by so many of the slowest writes before."""
_A_WHILE = 3.0


@pytest.fixture(scope="module")
def owner(apiserver: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Account]:
    """genguard's account, with the rights of the manifests."""
    with account(apiserver, HOME, tmp_path_factory.mktemp("account") / "kubeconfig") as found:
        yield found


@pytest.fixture(autouse=True)
def _afresh(apiserver: ControlPlane) -> None:
    """No pod has run before."""
    for path in (
        f"/apis/coordination.k8s.io/v1/namespaces/{HOME}/leases/genguard",
        f"/api/v1/namespaces/{HOME}/configmaps/genguard-findings",
    ):
        apiserver.client.delete(path, check=False)


def deleted(pod: Pod) -> None:
    pod.delete()


def killed(pod: Pod) -> None:
    """End it without a word, also of the kubelet."""
    pod.guard.kill()


def vanished(pod: Pod) -> None:
    pod.guard.pause()


def role(guard: Genguard) -> tuple[str, str]:
    about = json.loads(guard.ops("/api/server")[1])["about"]
    return about["role"], about["active"]


def knows(guard: Genguard, name: str) -> bool:
    """Whether it shows a finding about this object."""
    found = guard.findings()
    return name in {one["object"]["name"] for one in found}


@pytest.mark.parametrize(("ends", "seconds"), [(deleted, 2.0), (killed, 2.0), (vanished, 8.0)])
def test_the_standby_takes_over(
    *,
    apiserver: ControlPlane,
    namespace: NamespaceFactory,
    owner: Account,
    tmp_path: Path,
    ends: Callable[[Pod], None],
    seconds: float,
) -> None:
    where = namespace(apiserver)
    path = f"/apis/apps/v1/namespaces/{where}/deployments"
    names = [f"busy-{number}" for number in range(WRITERS)]
    for name in ("quiet", *names):
        apiserver.client.post(path, deployment(name))
    with (
        old_operator(apiserver, where),
        standing_by(apiserver, owner, tmp_path / "certs", "--heal") as pods,
        registered(apiserver, where, pods, timeoutSeconds=TIMEOUT),  # type: ignore[arg-type]
        ExitStack() as stack,
    ):
        for _ in range(3):
            assert write(apiserver, f"{path}/quiet") == 1
        old, new = pods.active, pods.other
        for pod in (old, new):
            wait_until(partial(knows, pod.guard, "quiet"), what="the finding")
        assert role(old.guard) == ("active", old.name)
        assert role(new.guard) == ("standby", old.name)
        assert not new.guard.log_lines("finding opened"), "the active one has told it"
        writers = [
            stack.enter_context(StatusWriter(apiserver, f"{path}/{name}", 0.05)) for name in names
        ]
        for one in writers:
            one.more(10)
        late = seconds + SLACK * max(one.slowest for one in writers)
        ends(old)
        began = time.monotonic()
        write(apiserver, f"{path}/quiet")
        wait_until(lambda: pods.active is new, what="the other one active")
        for one in writers:
            one.more(10)
        assert [text for one in writers for text in one.failures] == []
        assert pods.since < began + late, f"it took {pods.since - began:.1f} s"
        assert all(at < began + late for one in writers for at in one.unguarded)
        wait_until(lambda: stored(apiserver, f"{path}/quiet") == 1, what="it is put back")
        assert knows(new.guard, "quiet")
        assert role(new.guard) == ("active", new.name)
        if ends is vanished:
            old.guard.go_on()
            wait_until(lambda: role(old.guard) == ("standby", new.name), what="it stands by")
            wait_until(lambda: not pods.lead_to(old), what="nobody writes to the old one")
            time.sleep(_A_WHILE)
            assert pods.active is new, "nobody takes it back"
        assert new.guard.metric("genguard_leader") == 1


def test_a_standby_shows_what_the_active_pod_knows_or_says_when_that_was_saved(
    apiserver: ControlPlane, namespace: NamespaceFactory, owner: Account, tmp_path: Path
) -> None:
    where = namespace(apiserver)
    path = f"/apis/apps/v1/namespaces/{where}/deployments"
    apiserver.client.post(path, deployment("quiet"))
    with (
        old_operator(apiserver, where),
        standing_by(apiserver, owner, tmp_path / "certs") as pods,
        registered(apiserver, where, pods, timeoutSeconds=TIMEOUT),  # type: ignore[arg-type]
    ):
        for _ in range(3):
            write(apiserver, f"{path}/quiet")
        active, other = pods.active.guard, pods.other.guard
        wait_until(lambda: knows(active, "quiet"), what="the finding")
        wait_until(lambda: other.ops("/api/findings") == active.ops("/api/findings"), what="same")
        assert "standby of" not in other.ops("/")[1]
        assert role(other)[0] == "standby", "what is said of a server is about that server"
        # As it would ask the active pod: then it answers itself, by what was saved.
        url = f"http://127.0.0.1:{other.ops_port}/"
        hopped = urllib.request.Request(url, headers={"Genguard-Forwarded": "1"})
        with urllib.request.urlopen(hopped, timeout=PATIENCE) as answer:
            page = answer.read().decode()
        assert "standby of" in page
        assert "as saved at 2" in page


def write(plane: ControlPlane, path: str) -> int | None:
    answer = plane.client.patch(f"{path}/status", {"status": {"observedGeneration": 1}})
    return observed(answer.body)


def stored(plane: ControlPlane, path: str) -> int | None:
    return observed(plane.client.get(path).body)


def observed(found: dict[str, Any]) -> int | None:
    number: int | None = found["status"].get("observedGeneration")
    return number

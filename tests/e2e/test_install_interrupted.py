"""install that is killed after any of its steps, or whose undoing is refused in part.

The kill is a real SIGKILL of a real process, as it sends the next call after a step.
"""

import asyncio
import re
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests.cases_loader import read_beside
from tests.controlplane.plane import ControlPlane
from tests.e2e.genguard import Genguard
from tests.e2e.installations import LOOKED_AT, REGISTRATIONS, left_as_it_was, outside, registered
from tests.e2e.kubelet import PLANE, SYSTEM, Kubelet
from tests.e2e.verbs import Verb, run
from tests.faults.faulty_api import FaultyApi, healthy, status

STEPS = read_beside(__file__, "install_steps.yaml")
SERVER, REGISTERING = STEPS["server"], STEPS["registering"]


def by_day(steps: Sequence[str], *tried: int) -> list[Any]:
    """Each step as a parameter: these few in `make test`, the others by night."""
    return [
        pytest.param(number, id=step, marks=() if number in tried else pytest.mark.nightly)
        for number, step in enumerate(steps)
    ]


class Steps:
    """Counts the writes that come through a FaultyApi, and kills whoever sends one call more."""

    def __init__(self, last: int | None = None) -> None:
        self._last = last
        self.made: list[str] = []
        self.victim: Verb | None = None

    async def answer(self, request: web.Request) -> web.StreamResponse | None:
        if self._last is not None and len(self.made) == self._last:
            while self.victim is None:
                await asyncio.sleep(0.01)
            self.victim.send(signal.SIGKILL)
            return status(503, "killed")
        if request.method != "GET" and "dryRun" not in request.query:
            kind, name = request.path.rsplit("/", 2)[-2:]
            place = name if request.method == "POST" else f"{kind}/{name}"
            run = re.sub("genguard-test-[0-9a-f]{8}", "genguard-test-RUN", place)
            self.made.append(f"{request.method} {run}")
        return None


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    with ControlPlane(PLANE) as plane, Kubelet(plane):
        yield plane


@pytest.fixture
def clean(plane: ControlPlane) -> Iterator[ControlPlane]:
    with left_as_it_was(plane):
        yield plane


def counted(plane: ControlPlane, steps: Steps, folder: Path, verb: str, *flags: str) -> Verb:
    """Run a verb through a FaultyApi that counts its steps, to its end."""
    with FaultyApi(plane, folder / "kubeconfig") as api:
        api.answer = steps.answer
        with Verb(plane, verb, "--yes", f"--kubeconfig={api.kubeconfig}", *flags) as running:
            steps.victim = running
            return running.end()


def killed(plane: ControlPlane, last: int, folder: Path, *flags: str) -> None:
    """Run install, and kill it after its step `last`."""
    found = counted(plane, Steps(last), folder, "install", *flags)
    assert found.code == -signal.SIGKILL, found.err


def harms_nobody(plane: ControlPlane) -> None:
    """No write outside the trial namespace depends on a webhook, and one passes."""
    hooks = [
        hook
        for path in LOOKED_AT
        if path.endswith("webhookconfigurations")
        for one in plane.client.get(path).body["items"]
        for hook in one["webhooks"]
    ]
    for hook in hooks:
        only = hook["namespaceSelector"].get("matchLabels", {})
        is_trial = only.get("kubernetes.io/metadata.name", "").startswith("genguard-test-")
        assert is_trial or hook["failurePolicy"] == "Ignore", hook
    path = "/apis/apps/v1/namespaces/default/deployments"
    labels = {"app": "written"}
    template: dict[str, Any] = {"metadata": {"labels": labels}}
    template["spec"] = {"containers": [{"name": "c", "image": "c"}]}
    spec = {"replicas": 0, "selector": {"matchLabels": labels}, "template": template}
    plane.client.post(path, {"metadata": {"name": "written"}, "spec": spec})
    plane.client.patch(f"{path}/written", {"spec": {"replicas": 1}})
    plane.client.delete(f"{path}/written")


def deployments(plane: ControlPlane) -> list[str]:
    found = plane.client.get(f"/apis/apps/v1/namespaces/{SYSTEM}/deployments").body["items"]
    return [one["metadata"]["name"] for one in found]


def test_an_installation_has_these_steps(clean: ControlPlane, tmp_path: Path) -> None:
    """Else a step that is new would be killed by no test."""
    steps = Steps()
    done = counted(clean, steps, tmp_path, "install")
    assert done.code == 0, done.err
    assert tuple(steps.made) == (*SERVER, *REGISTERING)


@pytest.mark.parametrize("step", by_day(SERVER, 13))
def test_killed_while_it_installs_the_server_it_is_undone_by_uninstall(
    clean: ControlPlane, tmp_path: Path, step: int
) -> None:
    killed(clean, step + 1, tmp_path)
    assert registered(clean) == []
    harms_nobody(clean)
    run(clean, "uninstall", "--yes")
    assert "there is nothing of genguard's" in run(clean, "uninstall", "--yes").err


@pytest.mark.nightly
def test_killed_after_each_step_in_turn_it_goes_on_where_it_was(
    clean: ControlPlane, tmp_path: Path
) -> None:
    for _ in SERVER:
        killed(clean, 1, tmp_path)  # each run makes one step more
        harms_nobody(clean)
    done = counted(clean, left := Steps(), tmp_path, "install")
    assert done.code == 0, done.err
    assert left.made == REGISTERING
    assert registered(clean) == list(REGISTRATIONS)


@pytest.mark.parametrize("step", by_day(REGISTERING, 1, 8))
def test_killed_while_it_registers_it_is_completed_or_undone(
    clean: ControlPlane, tmp_path: Path, step: int
) -> None:
    with Genguard() as guard:
        flags = outside(guard)
        killed(clean, step + 1, tmp_path, *flags)
        harms_nobody(clean)
        run(clean, "install", "--yes", *flags)
        assert registered(clean) == list(REGISTRATIONS)
        run(clean, "uninstall", "--yes")
        killed(clean, step + 1, tmp_path, *flags)
    harms_nobody(clean)  # and now its server is gone as well
    run(clean, "uninstall", "--yes")
    assert "there is nothing of genguard's" in run(clean, "uninstall", "--yes").err


@pytest.mark.nightly
def test_uninstall_that_is_killed_after_each_step_in_turn_goes_on_where_it_was(
    clean: ControlPlane, tmp_path: Path
) -> None:
    run(clean, "install", "--yes")
    while (found := counted(clean, Steps(1), tmp_path, "uninstall")).code:
        assert found.code == -signal.SIGKILL, found.err
        harms_nobody(clean)
        registrations, is_served = registered(clean), "genguard" in deployments(clean)
        assert is_served or not registrations, "a server goes after what leads to it"
    assert "there is nothing of genguard's" in found.err


def test_what_cannot_be_undone_is_named_and_the_rest_is_undone(
    clean: ControlPlane, tmp_path: Path
) -> None:
    """The error is the first, which made it necessary to undo."""

    async def answer(request: web.Request) -> web.StreamResponse | None:
        match request.method, request.path.rpartition("/")[2]:
            case "POST", "validatingwebhookconfigurations" if not request.query.get("dryRun"):
                if "test" not in (await request.json())["metadata"]["name"]:
                    return status(422, "Refused first")
            case "DELETE", "0--genguard-intent":
                return status(403, "Refused later")
        return None

    with Genguard() as guard, FaultyApi(clean, tmp_path / "kubeconfig") as api:
        flags = "--yes", f"--kubeconfig={api.kubeconfig}", *outside(guard)
        api.answer = answer
        with Verb(clean, "install", *flags) as verb:
            verb.end()
        assert verb.code == 1
        assert verb.err.splitlines()[-1] == "Error: Refused first, as the test says (422)"
        title = "mutatingwebhookconfiguration/0--genguard-intent"
        assert f"{title} could not be put back: Refused later, as the test says (403)" in verb.err
        assert registered(clean) == ["intent"]
        harms_nobody(clean)
        api.answer = healthy
        run(clean, "install", "--yes", *outside(guard))
        assert registered(clean) == list(REGISTRATIONS)

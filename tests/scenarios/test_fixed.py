"""Each step that is shown as what ends a recorded loop is taken, and ends it, on a real cluster."""

import shlex
import time
from collections.abc import Iterator

import pytest

from tests.controlplane.client import ApiError, wait_until
from tests.controlplane.plane import ControlPlane
from tests.nightly import by_day
from tests.scenarios import recording
from tests.scenarios.catalogue import catalogue
from tests.scenarios.expecting import Found, examine, expectations, summary
from tests.scenarios.stage import Played, define, make_namespace, play

LOOPS = [name for name, one in expectations().items() if one.find]
AT_EACH_CHANGE = {
    "deployment-status-zeroed": "a rule for status is taken out",
    "annotation-added-to-at-each-call": "calling it once would not have ended it",
    "replicas-pinned": "a webhook is not called for one object",
    "suspended-by-a-policy-and-resumed-by-an-operator": "a policy leaves one object out",
    "replicas-of-gitops-and-an-autoscaler": "the manifest leaves replicas to the autoscaler",
    "label-of-two-wills": "one of two writers leaves a label to the other",
    "two-applications-claim-one-object": "Argo CD ignores a field",
    "sidecars-stripped-by-an-old-agent": "a webhook is left out of objects that set a field",
    "descheduler-against-two-pods": "who deletes objects leaves them to a controller of Kubernetes",
}
"""Those that `make test` plays, and why; `make test-all` plays all."""
_SECONDS_TO_TAKE_EFFECT = 1.5
"""The API server follows its registrations by watches."""


@pytest.fixture(scope="module")
def served(cluster: ControlPlane) -> ControlPlane:
    define(cluster)
    return cluster


@pytest.mark.parametrize("name", by_day(LOOPS, these=AT_EACH_CHANGE))
def test_a_step_that_is_shown_ends_the_loop_and_makes_no_other(
    served: ControlPlane, tmp_path, monkeypatch, name
):
    before = {_about(one) for one in _findings(name)}
    steps = list(_tried(name))
    for number, (step, ended) in enumerate(steps):
        played = _play_with(step, ended, served, name, is_last=number == len(steps) - 1)
        monkeypatch.setattr(recording, "FOLDER", tmp_path)
        recording.write(name, *played)
        left = {_about(one): summary(one) for one in _findings(name)}
        monkeypatch.undo()
        assert _about(ended) not in left, (step["title"], left)
        assert left.keys() <= before, (step["title"], left)


@pytest.mark.parametrize("name", LOOPS)
def test_a_step_says_that_it_would_have_ended_all_or_that_it_was_not_tried(name):
    for found in examine(recording.read_lines(name), recording.webhooks_of(name)).findings:
        for step in found["fix"]:
            trial = step.get("trial")
            if trial is None:
                assert step["title"].startswith(("Restore", "Find out", "Change nothing", "End "))
            elif "notTried" not in trial:
                assert trial["ended"] == trial["of"] > 0, (summary(found), step)


def _findings(name: str) -> list[Found]:
    """Return the findings of a recording that are more than an anomaly."""
    found = examine(recording.read_lines(name), recording.webhooks_of(name)).findings
    return [one for one in found if one["severity"] != "info"]


def _about(found: Found) -> tuple[str, ...]:
    where = found["object"]
    return found["detector"], where["resource"], where["name"], found["subresource"]


def _tried(name: str) -> Iterator[tuple[Found, Found]]:
    """Yield each step that was tried, changes a webhook, or names who gives way, once.

    With a finding that it ends.
    """
    seen = set()
    for found in _findings(name):
        for step in found["fix"]:
            change = step.get("command") or step.get("stanza") or step["title"]
            says = "give way" in f"{step['title']} {step['text']}" or "patch mutating" in change
            if (says or step.get("trial", {}).get("of")) and change not in seen:
                seen.add(change)
                yield step, found


def _play_with(
    step: Found, ended: Found, plane: ControlPlane, name: str, *, is_last: bool
) -> Played:
    """Play a scenario once more, with the step taken before anybody acts."""
    scenario = catalogue()[name]
    make_namespace(plane, name)
    try:
        if step.get("command", "").startswith("kubectl patch"):
            return play(plane, scenario, name, fixed=lambda: _run(plane, step["command"]))
        leaving = dict.fromkeys(_leaving(step, ended), ended["paths"])
        assert leaving, step["title"]
        return play(plane, scenario, name, left_alone=leaving)
    finally:
        path = f"/api/v1/namespaces/{name}"
        widgets = f"/apis/example.org/v1/namespaces/{name}/widgets"
        for one in plane.client.get(widgets).body["items"]:  # who removes finalizers may have left
            at = f"{widgets}/{one['metadata']['name']}"
            plane.client.patch(at, {"metadata": {"finalizers": None}})
        plane.client.delete(path)
        if not is_last:
            wait_until(lambda: not _is_there(plane, path), what=f"{name} gone")


def _run(plane: ControlPlane, command: str) -> None:
    program, *words = shlex.split(command)
    assert program == "kubectl"
    plane.kubectl(*words)
    time.sleep(_SECONDS_TO_TAKE_EFFECT)


def _leaving(step: Found, ended: Found) -> list[str]:
    """Return the users who leave the fields to others: the manifest's, or one of two owners."""
    users = [one["name"] for one in ended["actors"] if one["type"] == "user"]
    if step["title"].startswith("Leave spec.replicas"):
        return [one for one in users if one != "horizontal-pod-autoscaler"]
    return [one for one in users if f"{one} should give" in step["title"]] or users[-1:]


def _is_there(plane: ControlPlane, path: str) -> bool:
    try:
        plane.client.get(path)
    except ApiError as error:
        return error.status != 404
    return True

"""An installation waits for dry runs in every phase and mode, and for the end of earlier pods."""

from typing import Any

import pytest

from genguard.admission.probe import PROBE, answer
from genguard.admission.review import Phase
from webhook.cluster.install_waits import (
    leaving,
    until_mode,
    until_replaced,
    until_seen,
)
from webhook.cluster.reconcile import NotInTimeError
from webhook.cluster.rest import RawAnswer

PHASES = ("intent", "mutate", "outcome")


class ApiServer:
    """Answers each dry run with what comes next, and the last for ever."""

    def __init__(self, *answers: tuple[int, str, tuple[str, ...]]) -> None:
        self._answers = list(answers)

    async def call_raw(self, method, path, body, *, params):
        assert params == {"dryRun": "All"}, "nothing is ever stored"
        answers = self._answers
        status, message, seen = answers.pop(0) if len(answers) > 1 else answers[0]
        value = body["metadata"]["annotations"][PROBE]
        return RawAnswer(status, message, tuple(answer(value, Phase(one), {}) for one in seen), "")


@pytest.mark.slow
async def test_it_waits_until_every_phase_has_seen_one():
    server = ApiServer((201, "", ()), (201, "", ("intent",)), (201, "", PHASES))
    assert await until_seen(server, "default", PHASES, 30.0) == ""


@pytest.mark.parametrize(
    ("reply", "told"),
    [
        ((201, "", ("intent",)), "passed, not seen by mutate, outcome"),
        (
            (500, 'failed calling webhook "check.genguard.io": refused', ()),
            "failed calling webhook",
        ),
        ((404, 'namespaces "default" not found', ()), "not found"),
    ],
)
async def test_what_is_not_seen_in_time_is_told_with_the_last_reason(reply, told):
    with pytest.raises(NotInTimeError, match=told):
        await until_seen(ApiServer(reply), "default", PHASES, 0.0, refused_seconds=0.0)


async def test_who_refuses_every_probe_proves_nothing_and_stands_in_nobody_s_way():
    server = ApiServer((403, "denied by policy", ("intent", "mutate")))
    told = await until_seen(server, "default", PHASES, 30.0, refused_seconds=0.0)
    assert told == "denied by policy"


async def test_a_probe_that_is_refused_after_all_have_seen_it_is_proof():
    assert (
        await until_seen(ApiServer((403, "exceeded quota", PHASES)), "default", PHASES, 0.0) == ""
    )


DEPLOYMENT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {
        "name": "genguard",
        "namespace": "here",
        "annotations": {"deployment.kubernetes.io/revision": "2"},
    },
    "spec": {"selector": {"matchLabels": {"app.kubernetes.io/name": "genguard"}}},
}


def made(name: str, template: str | None = None, **metadata: Any) -> dict[str, Any]:
    labels = {} if template is None else {"pod-template-hash": template}
    return {"metadata": {"name": name, "labels": labels, **metadata}}


def replica_set(template: str, revision: str) -> dict[str, Any]:
    annotations = {"deployment.kubernetes.io/revision": revision}
    return made(f"genguard-{template}", template, annotations=annotations)


class Cluster:
    """Two templates, of which `new` is the last; pods are what comes next, the last for ever."""

    def __init__(self, *pods: list[dict[str, Any]]) -> None:
        self._pods = list(pods)

    async def get(self, path: str) -> Any:
        assert path.endswith("/deployments/genguard")
        return DEPLOYMENT

    async def list_all(self, path: str, params: Any, **_: str) -> Any:
        assert params == {"labelSelector": "app.kubernetes.io/name=genguard"}
        if path.endswith("/replicasets"):
            return [replica_set("old", "1"), replica_set("new", "2")]
        return self._pods.pop(0) if len(self._pods) > 1 else self._pods[0]


OLD, NEW, ENDING, FOREIGN = (
    made("old-1", "old"),
    made("new-1", "new"),
    made("new-2", "new", deletionTimestamp="2026-05-01T00:00:00Z"),
    made("somebody-s"),
)


@pytest.mark.parametrize(
    ("pods", "names", "because"),
    [
        ([NEW], [], "of the last template"),
        ([OLD, NEW], ["old-1"], "of the template before"),
        ([NEW, ENDING], ["new-2"], "evicted, and answering until it ends"),
        ([NEW, FOREIGN], [], "made by no Deployment: nobody would end it"),
    ],
)
async def test_a_pod_is_leaving_that_is_being_deleted_or_of_an_earlier_template(
    pods, names, because
):
    assert await leaving(Cluster(pods), DEPLOYMENT) == names, because


@pytest.mark.slow
async def test_it_is_waited_until_only_pods_of_the_last_template_are_left():
    await until_replaced(Cluster([OLD, NEW], [OLD, NEW], [NEW]), DEPLOYMENT, 30.0)


async def test_a_pod_that_does_not_end_in_time_is_named():
    with pytest.raises(NotInTimeError, match=r"old-1\. kubectl -n here get pods shows them"):
        await until_replaced(Cluster([OLD, NEW]), DEPLOYMENT, 0.0)


class Answering:
    """Each dry run is answered by a pod in the mode that comes next, the last for ever."""

    def __init__(self, *modes: str) -> None:
        self._modes = list(modes)
        self.asked = 0

    async def call_raw(self, method, path, body, *, params):
        self.asked += 1
        mode = self._modes.pop(0) if len(self._modes) > 1 else self._modes[0]
        said = {"mode": mode, "instance": f"pod-{mode}"} if mode else {}
        value = body["metadata"]["annotations"][PROBE]
        return RawAnswer(201, "", (answer(value, Phase.MUTATE, said),), "")


@pytest.mark.slow
async def test_the_wanted_mode_must_be_the_only_one_in_several_rounds():
    """One pod of eight still answers as before, in the second round."""
    server = Answering(*["enforcing"] * 12, "audit-only", "enforcing")
    await until_mode(server, "default", "enforcing", 30.0)
    assert server.asked == 8 * (2 + 3)


async def test_who_still_answers_in_another_mode_is_named():
    with pytest.raises(NotInTimeError, match="pod-audit-only still answers as audit-only"):
        await until_mode(Answering("audit-only"), "default", "enforcing", 0.0)


@pytest.mark.slow
async def test_who_says_no_mode_is_in_none():
    await until_mode(Answering(""), "default", "enforcing", 30.0)

"""An installation waits for dry runs in every phase and mode, and for the end of earlier pods."""

from typing import Any

import pytest

from genguard.admission.probe import PROBE, answer
from genguard.admission.review import Phase
from webhook.cluster.installation import until_rolled_out, until_seen
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
        return RawAnswer(status, message, tuple(answer(value, Phase(one), {}) for one in seen))


@pytest.mark.slow
async def test_it_waits_until_every_phase_has_seen_one():
    server = ApiServer((201, "", ()), (201, "", ("intent",)), (201, "", PHASES))
    assert await until_seen(server, "default", 30.0) == ""


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
        await until_seen(ApiServer(reply), "default", 0.0, refused_seconds=0.0)


async def test_who_refuses_every_probe_proves_nothing_and_stands_in_nobody_s_way():
    server = ApiServer((403, "denied by policy", ("intent", "mutate")))
    told = await until_seen(server, "default", 30.0, refused_seconds=0.0)
    assert told == "denied by policy"


async def test_a_probe_that_is_refused_after_all_have_seen_it_is_proof():
    assert await until_seen(ApiServer((403, "exceeded quota", PHASES)), "default", 0.0) == ""


DEPLOYMENT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "genguard", "namespace": "here"},
    "spec": {"replicas": 0, "selector": {"matchLabels": {"app.kubernetes.io/name": "genguard"}}},
}
STAYS: dict[str, Any] = {"metadata": {"name": "new-1"}}
ENDING = {"metadata": {"name": "old-1", "deletionTimestamp": "2026-05-01T00:00:00Z"}}


class Cluster:
    """Its pods are what comes next, the last for ever, and its Deployment is rolled out."""

    def __init__(self, *pods: list[dict[str, Any]]) -> None:
        self._pods = list(pods)

    async def get(self, path: str, **_: str) -> Any:
        return DEPLOYMENT

    async def list_all(self, path: str, params: Any, **_: str) -> Any:
        assert params == {"labelSelector": "app.kubernetes.io/name=genguard"}
        return self._pods.pop(0) if len(self._pods) > 1 else self._pods[0]


async def test_a_pod_that_does_not_end_in_time_is_named():
    with pytest.raises(NotInTimeError, match=r"old-1\. kubectl -n here describe pods says why"):
        await until_rolled_out(Cluster([ENDING, STAYS]), DEPLOYMENT, 0.0)

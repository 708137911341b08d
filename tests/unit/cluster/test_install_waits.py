"""An installation waits for dry runs in every phase and mode, and for the end of earlier pods."""

import pytest

from genguard.admission.probe import PROBE, answer
from genguard.admission.review import Phase
from tests.cases_loader import table
from webhook.cluster.installation import until_seen
from webhook.cluster.reconcile import NotInTimeError

PHASES = ("intent", "mutate", "outcome")


class ApiServer:
    """Answers each dry run with what comes next, and the last for ever."""

    def __init__(self, *answers: tuple[int, str, tuple[str, ...]]) -> None:
        self._answers = list(answers)

    async def call_raw(self, method, path, body, params):
        assert params == {"dryRun": "All"}, "nothing is ever stored"
        answers = self._answers
        status, message, seen = answers.pop(0) if len(answers) > 1 else answers[0]
        value = body["metadata"]["annotations"][PROBE]
        return status, message, tuple(answer(value, Phase(one), {}) for one in seen)


@table("cluster/not_seen.yaml", "reply", "told")
async def test_what_is_not_seen_in_time_is_told_with_the_last_reason(case):
    with pytest.raises(NotInTimeError, match=case["told"]):
        await until_seen(ApiServer(case["reply"]), "default", 0.0, refused_seconds=0.0)


async def test_who_refuses_every_probe_proves_nothing_and_stands_in_nobody_s_way():
    server = ApiServer((403, "denied by policy", ("intent", "mutate")))
    told = await until_seen(server, "default", 30.0, refused_seconds=0.0)
    assert told == "denied by policy"

"""A proof is waited for, and what can prove nothing is told from what is not proven."""

import pytest

from webhook.admission.probe import PROBE, answer
from webhook.admission.review import Phase
from webhook.cluster.install_waits import NotInTimeError, until_seen
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

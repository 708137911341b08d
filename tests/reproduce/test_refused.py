"""The test of a refused write is red for the refusal, and not for an object that is not there."""

import json
from collections.abc import Iterator
from typing import Any

from genguard.replay import Replay
from genguard.reproduce.recorded import findings_in, writes_of
from genguard.reproduce.reproducer import reproducer
from genguard.review_setup import ReviewOptions
from tests.cases_loader import Case, table
from tests.reproduce.making import red_for, written
from tests.reviews import make_review

_TRIES = 14


def lines(case: Case) -> Iterator[bytes]:
    other: dict[str, Any] = {"name": "other", "new": {"metadata": {"name": "other"}}}
    tries = [{"is_admitted": case.get("is_admitted", False), "user": "writer", **case["tries"]}]
    others = [{**other, "operation": "CREATE"}, *case.get("before", ())]
    for at, write in enumerate([*others, *tries * _TRIES]):
        asked = {"resource": case["tries"]["resource"], "operation": "UPDATE", **write}
        is_admitted, left = asked.pop("is_admitted", True), asked.pop("left", asked.get("new"))
        for phase in ("intent", "mutate", "outcome") if is_admitted else ("intent", "mutate"):
            shown = make_review(**{**asked, "new": asked.get("new") if phase == "intent" else left})
            line = {"time": f"2026-01-01T00:01:{at:02}Z", "phase": phase, "review": shown}
            yield json.dumps(line).encode()


@table("reproduce/refused.yaml", "before", "tries", "is_admitted", "is_webhook")
def test_a_refused_write_is_red_for_the_refusal_as_reported(case, tmp_path):
    def new_replay() -> Replay:
        return Replay(ReviewOptions(audit_only=True))

    writes, _ = writes_of(lines(case))
    known = findings_in(writes, new_replay)
    (found,) = (one for one in known if one.detector == "refused-retry")
    red = red_for(written(reproducer(writes, found, new_replay, server_version="1.36"), tmp_path))
    is_webhook = case.get("is_webhook", False)
    assert ("culprit/culprit" in red["refused-retry"]) is is_webhook, case.because
    assert not red_for(tmp_path, WITHOUT_CULPRIT="1")
    assert bool(red_for(tmp_path, lambda _: [])) is not is_webhook, "a corrected webhook"

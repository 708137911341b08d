"""Every recorded scenario with the phases left out that `serve --registrations follow` leaves out.

What is registered is narrowed by the same function as in the server. The findings are the same.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from genguard.admission.matching import Writes, may_match
from genguard.admission.review import Phase
from genguard.needed_phases import needs_of, rules_of
from tests.nightly import by_turns
from tests.scenarios import recording
from tests.scenarios.distorting import encoded
from tests.scenarios.expecting import complaints, examine, expectations
from tests.unit.detection.evaluating import CONDITIONS
from webhook.files.given import load_mutators

EXPECTED = expectations()
_MUTATING = {Phase.INTENT: "0--genguard-intent", Phase.MUTATE: "zzzzzz-genguard-mutate"}
_OUTCOME = "zzzzzz-genguard-outcome"
_REFUSED = 400
_VERBS = {"create": "CREATE", "update": "UPDATE", "patch": "UPDATE"}

Line = dict[str, Any]


def follow(name: str, folder: Path, *, enforcing: bool) -> tuple[Path, list[Line]]:
    """Return the narrowed registrations of a recording, and the reviews that still arrive."""
    path = recording.webhooks_of(name)
    mutators = load_mutators(path, CONDITIONS)
    listed = json.loads(path.read_text())
    hooks = {
        one["metadata"]["name"]: one["webhooks"] for one in listed["items"] if "webhooks" in one
    }
    outcome, rules = hooks[_OUTCOME][0]["rules"], {}
    needs = needs_of(outcome, mutators.may_change, enforcing=enforcing, refused=_refused(name))
    for phase, own in _MUTATING.items():
        hook = hooks[own][0]
        hook["rules"] = rules[phase] = rules_of(phase, outcome, hook["rules"], needs)
        del hooks[own][1:]  # the probe of the test that recorded it
    written = folder / path.name
    written.write_text(json.dumps(listed))
    lines = [json.loads(line) for line in recording.read_lines(name)]
    return written, [one for one in lines if _arrives(one, rules)]


def _arrives(line: Line, rules: dict[Phase, Any]) -> bool:
    phase, request = Phase(line["phase"]), line["review"]["request"]
    about = request["resource"]
    subresource = request.get("subResource", "")
    writes = Writes.named(about["group"], about["resource"], subresource, request["operation"])
    return phase is Phase.OUTCOME or may_match(rules[phase], writes)


def _refused(name: str) -> Callable[[Writes], bool]:
    """Return whether the audit log shows refused writes: as the metrics of an API server do."""
    found = set()
    for line in recording.read_audit(name):
        event = json.loads(line)
        about = event["objectRef"]
        if event["verb"] in _VERBS and event["responseStatus"]["code"] >= _REFUSED:
            group, subresource = about.get("apiGroup", ""), about.get("subresource", "")
            operation = _VERBS[event["verb"]]
            found.add(Writes.named(group, about["resource"], subresource, operation))
    return found.__contains__


@pytest.mark.parametrize(("name", "enforcing"), by_turns([*EXPECTED], [True, False]))
def test_with_the_phases_that_follow_leaves_out_the_findings_are_the_same(
    name, enforcing, tmp_path
):
    webhooks, arrived = follow(name, tmp_path, enforcing=enforcing)
    assert not list(complaints(examine(encoded(arrived), webhooks), EXPECTED[name]))


def test_most_calls_are_left_out_where_nobody_else_changes_writes(tmp_path):
    _, arrived = follow("label-of-two-wills", tmp_path, enforcing=False)
    assert len(arrived) < len(recording.read_lines("label-of-two-wills")) / 2

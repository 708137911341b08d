"""`replay --try-fix`: with a step taken, the recording does not give the finding any more."""

import json

import pytest
from click.testing import CliRunner

from genguard.detection.trial import Taken
from genguard.generation.table import DEFAULT_SERVER_VERSION
from genguard.replay import Replay
from genguard.review_setup import ReviewOptions, ReviewSetup
from genguard.trying import StepTaken
from tests.scenarios import recording
from tests.scenarios.judging import expectations
from tests.unit.detection.evaluating import CONDITIONS
from webhook.cli import main
from webhook.files.given import load_definitions, load_suspects

LOOPS = [name for name, one in expectations().items() if one.find]


def replayed(name: str) -> Replay:
    static = recording.static_of(name)
    given = [static] if static.exists() else []
    options = ReviewOptions(custom_resources=load_definitions(recording.DEFINITIONS))
    run = Replay(options, load_suspects(recording.webhooks_of(name), given, CONDITIONS))
    list(run.lines(recording.read_lines(name), name))
    return run


@pytest.mark.parametrize("name", LOOPS)
def test_a_loop_does_not_come_again_with_a_step_that_ends_it(name):
    found = list(replayed(name).findings(lambda: recording.read_lines(name)))
    tried = [
        (one["detector"], step["title"], step["trial"]["again"])
        for one in found
        if one["severity"] != "info"
        for step in one["fix"]
        if "again" in step.get("trial", {})
    ]
    assert [one for one in tried if one[2]] == []


def test_calling_a_webhook_once_does_not_end_a_loop_of_one_that_appends():
    name = "annotation-added-to-at-each-call"
    run = replayed(name)
    once = {"webhooks": [{"name": "reviews.example.org", "reinvocationPolicy": "Never"}]}
    step = Taken(
        paths=("/metadata/annotations/journal",),
        webhook="mmm-journal/reviews.example.org",
        patch=json.dumps(once),
    )
    found = run.with_step(step, recording.read_lines(name))
    assert "unstable-mutation" in {one.detector for one in found or ()}


@pytest.mark.parametrize("name", ["rollouts", "scaled-up-and-down", "well-behaved-webhooks"])
def test_a_step_that_concerns_nothing_leaves_each_review_as_it_is(name):
    nobody = Taken(paths=("/spec/nothing",), writers=())
    options = ReviewOptions(server_version=DEFAULT_SERVER_VERSION)
    suspects = load_suspects(recording.webhooks_of(name), (), CONDITIONS)
    step = StepTaken(nobody, suspects, ReviewSetup(options).dependencies.engine)
    lines = list(recording.read_lines(name))
    assert list(step.lines(lines)) == lines


def run(*arguments: object):
    return CliRunner().invoke(main, ["replay", "--try-fix", *map(str, arguments)])


def test_the_verb_says_what_came_of_it(tmp_path):
    name = "replicas-pinned"
    file = tmp_path / "reviews.ndjson"
    file.write_bytes(b"\n".join(recording.read_lines(name)))
    result = run("-o", "json", f"--webhooks={recording.webhooks_of(name)}", file)
    found = [json.loads(line) for line in result.stdout.splitlines() if '"finding"' in line]
    (first, *_) = next(one["fix"] for one in found if one["detector"] == "spec-fight")
    assert first["trial"]["again"] == 0


def test_standard_input_cannot_be_read_again_and_an_audit_log_is_not_tried(tmp_path):
    result = run("-")
    assert (result.exit_code, "not standard input" in result.stderr) == (2, True)
    log = tmp_path / "audit.log"
    log.write_bytes(b"\n".join(recording.read_audit("replicas-pinned")))
    result = run(log)
    assert "an audit log is not tried again" in result.stderr

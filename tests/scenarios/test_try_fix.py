"""`replay --try-fix`: with a step taken, the recording does not give the finding any more."""

import json
import os

import pytest
from click.testing import CliRunner

from genguard.detection.finding import Actor, Confidence
from genguard.detection.suspects import Suspects
from genguard.detection.trial import Taken
from genguard.replay import Replay
from genguard.review_setup import ReviewOptions, ReviewSetup
from genguard.trying import StepTaken
from tests.scenarios import recording
from tests.scenarios.judging import expectations
from tests.unit.detection.evaluating import CONDITIONS
from webhook.cli import main
from webhook.files.given import load_definitions, load_suspects

ENGINE = ReviewSetup(ReviewOptions()).dependencies.engine
REINVOKED = ("pod-that-ran-before-the-webhook",)
"""/mutate is called twice for some writes, and the webhook between is not reinvoked."""
LOOPS = [name for name, one in expectations().items() if one.find]


def replayed(name: str) -> Replay:
    options = ReviewOptions(custom_resources=load_definitions(recording.DEFINITIONS))
    run = Replay(options, load_suspects(recording.webhooks_of(name), CONDITIONS))
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


def test_who_is_innocent_ends_nothing():
    run = replayed("custom-status-removed-beside-a-condition-that-is-false")
    signs = {}
    for name in ("aaa-larger", "mmm-guilty"):
        webhook = f"{name}/reviews.example.org"
        step = condition_added(webhook, "false", "/status/observedGeneration")
        lines = recording.read_lines("custom-status-removed-beside-a-condition-that-is-false")
        found = run.with_step(step, lines) or ()
        signs[name] = {one.detector: one.count for one in found}
    assert signs["aaa-larger"]["observed-generation-cleared"] == 16
    assert signs["mmm-guilty"] == {}


@pytest.mark.parametrize(("leaves", "wanted"), [("gitops", 5), ("autoscaler", 3)])
def test_one_of_two_who_fight_goes_on_and_what_it_wants_stays(leaves, wanted):
    lines = recording.read_lines("replicas-of-two-wills")
    step = StepTaken(left_alone(leaves, "/spec/replicas"), Suspects(), ENGINE)
    left = [json.loads(line) for line in step.lines(lines)]
    requests = [
        one["review"]["request"]
        for one in left
        if one["phase"] == "outcome" and one["review"]["request"]["name"] == "web"
    ]
    stored = [one["object"]["spec"]["replicas"] for one in requests]
    # Also where two writes of one version were reviewed, and only one of them was stored.
    assert [*dict.fromkeys(stored)] == [2, wanted]
    assert stored == sorted(stored)
    assert {one["object"]["metadata"]["generation"] for one in requests} == {1, 2}


def left_alone(user: str, path: str) -> Taken:
    return Taken(paths=(path,), writers=(Actor("user", user, "", Confidence.CERTAIN),))


def condition_added(webhook: str, expression: str, path: str) -> Taken:
    added = {"matchConditions": [{"name": "added", "expression": expression}]}
    patch = {"webhooks": [{"name": webhook.partition("/")[2], **added}]}
    return Taken(paths=(path,), webhook=webhook, patch=json.dumps(patch))


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in REINVOKED or n % 5 == 0 else pytest.mark.nightly)
        for n, name in enumerate(recording.recorded())
    ],
)
def test_a_step_that_concerns_nothing_leaves_each_review_as_it_is(name):
    lines = recording.read_lines(name)
    suspects = load_suspects(recording.webhooks_of(name), CONDITIONS)
    nobody = '!has(request.name) || request.name != "nobody"'
    taken = [left_alone("nobody", "/spec/replicas")]
    taken += [
        condition_added(one.name, nobody, "/metadata/labels/nothing") for one in suspects.others[:1]
    ]
    for one in taken:
        step = StepTaken(one, suspects, ENGINE)
        assert list(step.lines(lines)) == lines
        assert step.is_decided


def test_a_condition_that_nobody_evaluates_decides_nothing():
    known = load_suspects(recording.webhooks_of("replicas-pinned"), CONDITIONS)
    run = Replay(ReviewOptions(), Suspects(known.registered))
    step = condition_added("mmm-pinner/reviews.example.org", "false", "/spec/replicas")
    assert run.with_step(step, recording.read_lines("replicas-pinned")) is None


def run(*arguments: object):
    return CliRunner().invoke(main, ["replay", "--try-fix", *map(str, arguments)])


def test_a_pipe_cannot_be_read_again(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    result = run(pipe)
    assert (result.exit_code, "or a pipe" in result.stderr) == (2, True)


def test_the_table_says_it_beneath_the_finding():
    name = "replicas-pinned"
    result = run(f"--webhooks={recording.webhooks_of(name)}", recording.reviews_of(name))
    said = "On the whole recording the finding does not come again."
    assert [one for one in result.stdout.splitlines() if said in one and one.startswith("  ")]


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

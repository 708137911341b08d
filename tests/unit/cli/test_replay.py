"""`genguard replay`: recordings in, one line for each review out."""

import gzip
import os
import subprocess
import sys

import pytest
from click.testing import CliRunner

from tests.reviews import make_review
from tests.scenarios import recording
from tests.unit.cli.samples import DEFINITION, clobbered, lines, recorded, replay, write_lines
from webhook.cli import main

KEYS = {
    "type", "uid", "phase", "group", "resource", "subresource", "operation", "namespace", "name",
    "predictedGeneration", "step", "cause", "effective", "patch", "apiVersion", "objectUid",
}  # fmt: skip


def test_each_review_is_one_object_and_a_summary_is_last(tmp_path):
    asked = clobbered()
    result = replay("-o", "json", write_lines(tmp_path / "a", asked, make_review("CREATE", new={})))
    assert result.exit_code == 0
    first, second, summary = lines(result)
    assert first.keys() == second.keys() == KEYS
    assert first == {
        "type": "review", "uid": asked["request"]["uid"], "phase": "mutate", "group": "apps",
        "resource": "deployments", "subresource": "status", "operation": "UPDATE",
        "namespace": "default", "name": "thing", "apiVersion": "apps/v1",
        "objectUid": asked["request"]["oldObject"]["metadata"].get("uid", ""),
        "predictedGeneration": None, "step": 0,
        "cause": "subresource-keeps", "effective": False,
        "patch": [{"op": "add", "path": "/status/observedGeneration", "value": 3}],
    }  # fmt: skip
    assert second["predictedGeneration"] == 1
    assert summary == {"type": "summary", "unreadable": 0, "reviews": 2, "patched": 2}


def test_the_phases_of_a_recording_are_joined(tmp_path):
    sent = make_review(new={"status": {"observedGeneration": 5}}, old={}, subresource="status")
    lost = make_review(new={"status": {}}, old={}, subresource="status")
    path = write_lines(
        tmp_path / "recording", recorded("intent", sent), recorded("mutate", lost, 1),
        recorded("outcome", sent, 2),
    )  # fmt: skip
    *reviews, summary = lines(replay("-o", "json", path))
    intent, mutate, outcome = (one for one in reviews if one["type"] == "review")
    assert [one["phase"] for one in (intent, mutate, outcome)] == ["intent", "mutate", "outcome"]
    assert [one["patch"] for one in (intent, outcome)] == [[], []]
    assert mutate["patch"][0]["value"] == 5
    assert (summary["reviews"], summary["patched"]) == (3, 1)


def test_plain_compressed_and_standard_input_give_the_same(tmp_path):
    rows = [clobbered(), recorded("mutate", clobbered())]
    plain = write_lines(tmp_path / "a.ndjson", *rows)
    content = plain.read_bytes()
    results = [
        replay("-o", "json", plain),
        replay("-o", "json", write_lines(tmp_path / "a.gz", *rows)),
        replay("-o", "json", "-", stdin=content),
        replay("-o", "json", "-", stdin=gzip.compress(content)),
    ]
    assert {result.exit_code for result in results} == {0}
    assert len({result.stdout for result in results}) == 1


def test_definitions_tell_which_custom_resources_have_a_status_subresource(tmp_path):
    asked = make_review(
        resource="widgets", new={"status": {"a": 1}}, old={"metadata": {"generation": 1}}
    )
    path = write_lines(tmp_path / "a", asked)
    crds = write_lines(tmp_path / "crds.json", DEFINITION)
    assert lines(replay("-o", "json", path))[0]["cause"] == "unknown-status-subresource"
    assert lines(replay("-o", "json", "--crds", crds, path))[0]["predictedGeneration"] == 2


def test_the_table_is_one_row_a_review(tmp_path):
    path = write_lines(tmp_path / "a", clobbered(), make_review("CREATE", "pods", new={}))
    first, second, summary = replay(path).stdout.splitlines()
    assert first.split() == [
        "mutate", "UPDATE", "deployments/status", "default/thing", "-", "subresource-keeps",
        "add", "/status/observedGeneration=3",
    ]  # fmt: skip
    assert second.split()[4:6] == ["1", "created"]
    assert summary == "0 unreadable, 2 reviews, 2 patched"


@pytest.mark.slow
def test_the_order_in_which_python_keeps_its_sets_does_not_show(tmp_path):
    """A hash seed of its own is what every process has: output must not depend on it."""
    sent = make_review(
        new={"status": {"observedGeneration": 5, "a": 1}}, old={}, subresource="status"
    )
    rows = []
    for second in range(20):
        for phase, asked in (("intent", sent), ("mutate", clobbered()), ("outcome", clobbered())):
            rows.append(recorded(phase, asked, second))
    path = write_lines(tmp_path / "a", *rows)
    outputs = {
        subprocess.run(
            [sys.executable, "-m", "webhook", "replay", "-o", "json", str(path)],
            env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, check=True,
        ).stdout
        for seed in "123"
    }  # fmt: skip
    assert len(outputs) == 1


def test_policies_and_validating_registrations_are_taken_with_the_webhooks(tmp_path):
    kinds = (
        "MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding", "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding", "ValidatingWebhookConfiguration",
        "MutatingWebhookConfiguration",
    )  # fmt: skip
    items = [{"kind": kind, "metadata": {"name": "x"}, "spec": {}} for kind in kinds]
    given = write_lines(tmp_path / "given.json", {"kind": "List", "items": items})
    path = write_lines(tmp_path / "a", clobbered())
    assert replay("-o", "json", "--webhooks", given, path).exit_code == 0
    items.append({"kind": "ClusterRole", "metadata": {"name": "x"}})
    write_lines(given, {"kind": "List", "items": items})
    refused = replay("--webhooks", given, path)
    assert refused.exit_code == 2
    assert "expected MutatingAdmissionPolicy or" in refused.stderr


def test_a_finding_that_follows_from_another_is_a_row_beneath_it():
    name = "a-child-of-what-two-fight-over"
    result = CliRunner().invoke(
        main, ["replay", "--crds", str(recording.DEFINITIONS), str(recording.reviews_of(name))]
    )
    *_, cause, child, _ = result.output.splitlines()
    assert cause.split()[:2] == ["warning", "spec-fight"]
    assert child.split()[:3] == ["info", "└", "generation-storm"]


@pytest.mark.parametrize(
    ("severity", "code"), [(None, 0), ("info", 1), ("warning", 1), ("critical", 0)]
)
def test_findings_that_are_severe_enough_decide_on_the_exit_code(severity, code):
    name = "a-child-of-what-two-fight-over"  # a warning, and an info that follows from it
    flags = ["--fail-on", severity] if severity else []
    result = replay("--crds", recording.DEFINITIONS, *flags, recording.reviews_of(name))
    assert result.exit_code == code


def test_a_file_without_reviews_says_so(tmp_path):
    path = write_lines(tmp_path / "empty.ndjson")
    result = replay(path)
    assert (result.exit_code, result.stderr) == (0, f"No reviews or events found in {path}.\n")

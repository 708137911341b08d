"""`genguard rules`, and --rules of the verbs that evaluate."""

import json

import pytest
from click.testing import CliRunner

from tests.architecture.source import ROOT
from tests.cases_loader import table
from webhook.cli import main

RULES = """\
rules:
- apiVersion: example.org/v1
  kind: Widget
  failed: status.phase == 'Broken'
  current: status.phase == 'Done'
"""
DONE = "{apiVersion: example.org/v1, kind: Widget, metadata: {name: a}, status: {phase: Done}}"
BROKEN = DONE.replace("Done", "Broken")
CASES = f"""\
cases:
- because: it is done
  object: {DONE}
  expect: current
- because: it is broken
  object: {BROKEN}
  expect: {{result: failed, health: Red}}
"""


def run(*args: str, text=None):
    return CliRunner().invoke(main, list(args), input=text, env={"KUBECONFIG": "", "HOME": "/no"})


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "widgets.yaml"
    path.write_text(RULES)
    (tmp_path / "widgets.cases.yaml").write_text(CASES)
    return path


def test_a_case_that_fails_says_what_differs_and_what_blocks(file):
    file.write_text(RULES.replace("'Done'", "'Finished'"))
    result = run("rules", "test", str(file))
    assert result.exit_code == 1
    assert result.stdout == (
        f"FAILED {file}: case 1, Widget: it is done\n"
        "  result inProgress, want current\n"
        "  status.phase Done, want `current` true\n"
        "2 cases: 1 pass, 1 fail\n"
    )


def test_rules_without_a_case_are_named(file):
    other = "- {apiVersion: example.org/v1, kind: Gadget, current: 'true'}\n"
    file.write_text(RULES + other)
    result = run("rules", "test", str(file))
    assert result.exit_code == 0
    assert "no case has an object of Gadget.example.org" in result.stdout


@table("cli/rules.yaml", "run", "code", "told")
def test_each_action_ends_with_a_code_and_says_what_is_wrong(file, tmp_path, case):
    bad, alone = tmp_path / "bad.yaml", tmp_path / "alone.yaml"
    bad.write_text(RULES.replace("== 'Done'", "="))
    alone.write_text(RULES)
    places = {"BAD": str(bad), "GOOD": str(file), "ALONE": str(alone)}
    result = run("rules", *(places.get(one, one) for one in case["run"].split()))
    assert result.exit_code == case["code"], case.because
    assert case["told"] in result.output


def test_the_rule_in_the_documents_passes_its_case(tmp_path):
    text = (ROOT / "docs" / "status.md").read_text()
    path = tmp_path / "databases.yaml"
    path.write_text(text.partition("```yaml\n")[2].partition("```")[0])
    assert "rules:" in path.read_text()
    result = run("rules", "test", str(path))
    assert (result.exit_code, result.stdout) == (0, "1 cases: 1 pass, 0 fail\n")


def test_status_evaluates_by_the_rules_of_a_file(file):
    result = run("status", "--rules", str(file), "-f", "-", "-o", "json", text=f"--- {BROKEN}")
    assert result.exit_code == 0
    found = json.loads(result.stdout)
    assert (found["ready"], found["health"]) == (False, "Red")
    assert found["reasons"] == ["status.phase Broken, want `failed` false"]


@pytest.mark.parametrize("verb", [["status", "-f", "-"], ["wait", "a/b"], ["explain", "po"]])
def test_a_rule_that_cannot_be_used_ends_the_verb(file, verb):
    file.write_text(RULES.replace("== 'Done'", "="))
    result = run(*verb, "--rules", str(file))
    assert result.exit_code == 2
    assert f"--rules {file}: Widget.example.org: `current`: line 1, column 14" in result.stderr
    assert result.stderr.count("\n") == 1

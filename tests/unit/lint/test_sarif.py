"""`genguard lint -o sarif`: what code scanning services need of SARIF 2.1.0."""

import json
from pathlib import Path
from typing import Any

import yaml
from click.testing import CliRunner
from jsonschema import Draft202012Validator

from genguard.linting.checks import CHECKS
from tests.unit.lint.samples import definition
from tests.unit.lint.test_checks import configuration
from webhook import __version__
from webhook.cli import main

SLOW = configuration("slow", {"timeoutSeconds": 20, "rule": {"resources": ["gadgets"]}})
BAD = configuration("bad", {"sideEffects": "Some"})
ESSENTIALS: dict[str, Any] = json.loads(
    Path(__file__).with_name("sarif_essentials.json").read_text()
)
"""A JSON Schema of what code scanning services need."""
"""Of the standard (3.13, 3.14, 3.19, 3.27, 3.28), and what GitHub asks for beyond it."""


def sarif(*arguments: str | Path, stdin: str | None = None, code: int = 0) -> Any:
    done = CliRunner().invoke(main, ["lint", "-o", "sarif", *map(str, arguments)], input=stdin)
    assert done.exit_code == code, done.output
    log = json.loads(done.stdout)
    Draft202012Validator(ESSENTIALS).validate(log)
    (run,) = log["runs"]
    assert run["tool"]["driver"]["semanticVersion"] == __version__
    for result in run["results"]:
        assert run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == result["ruleId"]
    return run


def physical(result: Any) -> Any:
    return result["locations"][0]["physicalLocation"]


def test_each_check_is_a_rule(tmp_path):
    (tmp_path / "none.yaml").write_text("kind: ConfigMap\n")
    run = sarif(tmp_path / "none.yaml")
    assert [rule["id"] for rule in run["tool"]["driver"]["rules"]] == [one.id for one in CHECKS]
    assert run["results"] == []


def test_a_result_names_file_and_line_of_the_field_in_any_document(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = "# a comment\n---\nkind: ConfigMap\n---\n" + yaml.safe_dump(SLOW)
    Path("my hooks.yaml").write_text(text)
    (result,) = sarif("my hooks.yaml")["results"]
    line = 1 + text.splitlines().index(
        next(one for one in text.splitlines() if "timeoutSeconds" in one)
    )
    assert result["level"] == "warning"
    assert physical(result) == {
        "artifactLocation": {"uri": "my%20hooks.yaml"},
        "region": {"startLine": line},
    }


def test_a_definition_has_its_own_lines_whatever_else_has_its_name(tmp_path):
    widgets = definition({"version": {"subresources": {"scale": {}}}})
    same_name = {"kind": "ConfigMap", "metadata": {"name": "widgets.example.org"}}
    path = tmp_path / "a.yaml"
    path.write_text(yaml.safe_dump_all([same_name, widgets]))
    (result,) = sarif(path)["results"]
    lines = path.read_text().splitlines()
    line = physical(result)["region"]["startLine"]
    assert [one.strip() for one in lines[line - 2 : line]] == ["subresources:", "scale: {}"]
    (logical,) = result["locations"][0]["logicalLocations"]
    assert logical["fullyQualifiedName"] == (
        "widgets.example.org/spec.versions[0].subresources.status"
    )


def test_standard_input_has_no_lines():
    (result,) = sarif("-", stdin=yaml.safe_dump(BAD), code=1)["results"]
    assert physical(result) == {"artifactLocation": {"uri": "stdin"}}
    assert result["level"] == "error"


def test_a_problem_keeps_its_fingerprint_when_it_moves(tmp_path):
    path, seen = tmp_path / "a.yaml", []
    for before in ("", "# one\n# two\n"):
        path.write_text(before + yaml.safe_dump(SLOW))
        (result,) = sarif(path)["results"]
        seen.append((result["partialFingerprints"], physical(result)["region"]["startLine"]))
    assert seen[0][0] == seen[1][0]
    assert seen[1][1] == seen[0][1] + 2


def test_nothing_of_a_certificate_or_of_other_documents_is_in_it(tmp_path):
    secret = {"kind": "Secret", "metadata": {"name": "s"}, "stringData": {"key": "hunter2"}}
    path = tmp_path / "a.yaml"
    path.write_text(yaml.safe_dump_all([secret, SLOW]))
    assert "hunter2" not in json.dumps(sarif(path))

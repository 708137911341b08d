"""`genguard lint -o openreports`: a ClusterReport that the published schema accepts."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from jsonschema import Draft202012Validator

from tests.openreports import definitions
from tests.unit.lint.test_checks import configuration
from webhook.cli import main

SCHEMA = next(
    one["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    for one in definitions()
    if one["spec"]["names"]["kind"] == "ClusterReport"
)
RESULTS = {"error": ("fail", "high"), "warning": ("warn", "medium"), "info": ("warn", "info")}


def printed(path: Path, output: str) -> list[dict[str, Any]]:
    done = CliRunner().invoke(main, ["lint", "-o", output, str(path)])
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    found = tmp_path / "hooks.yaml"
    slow = configuration("slow", {"timeoutSeconds": 20, "rule": {"resources": ["gadgets"]}})
    found.write_text(yaml.safe_dump_all([slow, configuration("bad", {"sideEffects": "Some"})]))
    return found


def test_it_has_a_result_for_each_finding_the_worst_first(path):
    (report,) = printed(path, "openreports")
    Draft202012Validator(SCHEMA).validate(report)
    assert report["kind"] == "ClusterReport"
    assert report["apiVersion"] == "openreports.io/v1alpha1"
    assert report["metadata"]["name"] == "genguard-lint"
    found = [one for one in printed(path, "json") if one["type"] == "lint"]
    assert len(report["results"]) == len(found) == 2
    assert sorted((one["policy"], one["message"]) for one in report["results"]) == sorted(
        (one["id"], one["message"]) for one in found
    )
    for one in report["results"]:
        (same,) = [
            each
            for each in found
            if (each["id"], each["field"], each["webhook"].partition("/")[2])
            == (one["policy"], one["properties"]["field"], one["properties"]["webhook"])
        ]
        assert (one["result"], one["severity"]) == RESULTS[same["severity"]]
        (resource,) = one["resources"]
        assert resource["name"] == same["webhook"].partition("/")[0]
        assert resource["kind"] in (
            "MutatingWebhookConfiguration",
            "ValidatingWebhookConfiguration",
        )
    outcomes = [one["result"] for one in report["results"]]
    assert outcomes == sorted(outcomes)  # fail, then warn
    assert report["summary"]["fail"] == outcomes.count("fail") > 0


def test_without_a_finding_the_report_is_empty(tmp_path):
    empty = tmp_path / "none.yaml"
    empty.write_text("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n")
    (report,) = printed(empty, "openreports")
    assert report["results"] == []
    assert set(report["summary"].values()) == {0}


def test_a_definition_is_named_as_what_it_is(tmp_path):
    path = tmp_path / "definition.yaml"
    path.write_text(
        yaml.safe_dump(
            {
                "apiVersion": "apiextensions.k8s.io/v1",
                "kind": "CustomResourceDefinition",
                "metadata": {"name": "widgets.example.org"},
                "spec": {
                    "group": "example.org",
                    "names": {"plural": "widgets", "kind": "Widget"},
                    "scope": "Namespaced",
                    "versions": [
                        {
                            "name": "v1",
                            "served": True,
                            "storage": True,
                            "schema": {
                                "openAPIV3Schema": {
                                    "type": "object",
                                    "properties": {"status": {"type": "object"}},
                                }
                            },
                        }
                    ],
                },
            }
        )
    )
    (report,) = printed(path, "openreports")
    Draft202012Validator(SCHEMA).validate(report)
    assert {one["category"] for one in report["results"]} == {"CustomResourceDefinition"}
    assert [one["resources"] for one in report["results"]] == [
        [
            {
                "apiVersion": "apiextensions.k8s.io/v1",
                "kind": "CustomResourceDefinition",
                "name": "widgets.example.org",
            }
        ]
    ] * len(report["results"])

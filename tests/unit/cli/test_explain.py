"""`genguard explain`: names, versions, custom resources of a file, and what is not known."""

import json

import pytest
from click.testing import CliRunner

from tests.unit.explain.samples import DEFINITIONS
from webhook.cli import main


def run(*args: str, **env):
    nowhere = {"KUBECONFIG": "", "HOME": "/nonexistent", "COLUMNS": "100"}
    return CliRunner().invoke(main, ["explain", *args], env={**nowhere, **env})


@pytest.mark.parametrize(
    "name", ["deploy", "Deployment", "deployments", "deployment.apps", "deployments.v1.apps"]
)
def test_a_kind_has_the_names_that_kubectl_takes(name):
    result = run(name)
    assert result.exit_code == 0
    assert result.stdout.startswith("Deployment  deployments.apps\n")


def test_as_json_it_is_one_object():
    found = json.loads(run("po", "-o", "json", "--server-version", "1.32").stdout)
    assert (found["resource"], found["serverVersion"]) == ("pods", "1.32")
    assert found["generation"]["storedAsSent"] == ["CREATE"]
    assert [entry["since"] for entry in found["generation"]["history"]] == ["", "1.33"]


def test_a_custom_resource_of_a_file_is_explained():
    result = run("gd", "--crds", str(DEFINITIONS))
    assert result.exit_code == 0
    assert "v1alpha1, without status subresource" in result.stdout

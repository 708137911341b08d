"""A table of command lines: genguard prints what the real kubectl prints for the same flags.

Each row is run by both on the same objects of a real API server. The fields have other names, so
that rows with templates have two forms. Columns are compared by their words: kubectl puts one more
blank between them.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

import pytest
from click.testing import CliRunner, Result

from genguard.objects.selectors import parse_label_selector
from tests.cases_loader import Case, load, table
from tests.controlplane.plane import ControlPlane
from tests.e2e.culprits import deployment
from webhook.cli import main

LABELS: Final[Mapping[str, Mapping[str, str]]] = {
    "api": {"app": "api", "tier": "back"},
    "web": {"app": "web", "tier": "front"},
    "job": {"tier": "back"},
}
"""The objects of the namespace HERE, and their labels. THERE has `web` alone."""
HERE: Final = "flags-here"
THERE: Final = "flags-there"


CASES: Final = load("cli/kubectl.yaml", "how", "kubectl", "genguard")


def rows(how: str) -> Any:
    """The cases in which genguard does as kubectl in this way."""
    found = [case for case in CASES if case["how"] == how]
    return pytest.mark.parametrize("row", found, ids=[case["kubectl"] or "alone" for case in found])


def words(row: Case) -> list[str]:
    """The words of genguard."""
    found: str = row.get("genguard", row["kubectl"].replace("get ", "status ", 1))
    return found.split()


@pytest.fixture(scope="module")
def plane(apiserver: ControlPlane) -> Iterator[ControlPlane]:
    names = {HERE: LABELS, THERE: {"web": LABELS["web"]}}
    for namespace, objects in names.items():
        apiserver.client.post("/api/v1/namespaces", {"metadata": {"name": namespace}})
        for name, labels in objects.items():
            made = deployment(name)
            made["metadata"]["labels"] = {**labels, "flags": "test"}
            path = f"/apis/apps/v1/namespaces/{namespace}"
            owner = apiserver.client.post(f"{path}/deployments", made).body
            if name == "job":  # there is no controller that makes one
                apiserver.client.post(f"{path}/replicasets", owned_by(owner))
    yield apiserver
    for namespace in names:
        for resource in ("deployments", "replicasets"):
            apiserver.client.delete(f"/apis/apps/v1/namespaces/{namespace}/{resource}")


def owned_by(owner: dict[str, Any]) -> dict[str, Any]:
    """A ReplicaSet as the Deployment would have."""
    metadata = {"name": f"{owner['metadata']['name']}-1", "labels": {"flags": "owned"}}
    reference = {
        "apiVersion": "apps/v1", "kind": "Deployment", "controller": True,
        "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"],
    }  # fmt: skip
    spec = {key: owner["spec"][key] for key in ("replicas", "selector", "template")}
    spec["template"]["metadata"]["labels"] |= spec["selector"]["matchLabels"]
    return {"metadata": {**metadata, "ownerReferences": [reference]}, "spec": spec}


def genguard(plane: ControlPlane, words: list[str]) -> Result:
    """Run genguard as kubectl is run: with the flag before the verb."""
    return CliRunner().invoke(main, words, env={"KUBECONFIG": str(plane.kubeconfig)})


def words_of(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


@rows("printed")
def test_it_prints_what_kubectl_prints(plane: ControlPlane, row: Case) -> None:
    asked = plane.kubectl(*row["kubectl"].split())
    found = genguard(plane, words(row))
    assert found.exit_code == 0, found.output
    assert words_of(found.stdout) == words_of(asked.stdout)


def test_names_are_those_of_what_was_asked_for_and_json_has_what_it_owns(
    plane: ControlPlane,
) -> None:
    asked = ["status", "deploy/job", "-n", HERE]
    assert genguard(plane, [*asked, "-o", "name"]).stdout == "deployment.apps/job\n"
    lines = genguard(plane, [*asked, "-o", "json"]).stdout.splitlines()
    kinds = [json.loads(line)["kind"] for line in lines]
    assert kinds == ["Deployment", "ReplicaSet"]


@rows("refused")
def test_it_refuses_what_kubectl_refuses(plane: ControlPlane, row: Case) -> None:
    asked = plane.kubectl(*row["kubectl"].split(), check=False)
    found = genguard(plane, words(row))
    assert asked.returncode != 0
    assert found.exit_code != 0
    assert (asked.stdout, found.stdout) == ("", "")
    assert sum(not line.startswith("note: ") for line in found.stderr.splitlines()) == 1


@rows("helped")
def test_help_is_where_kubectl_has_it(plane: ControlPlane, row: Case) -> None:
    asked = plane.kubectl(*row["kubectl"].split())
    found = genguard(plane, words(row))
    assert found.exit_code == 0
    for text, stderr in ((asked.stdout, asked.stderr), (found.stdout, found.stderr)):
        assert "Usage:" in text
        assert stderr == ""
    assert ("Examples:" in found.stdout) is ("Examples:" in asked.stdout)


@table("selectors/of_findings.yaml", "selector")
def test_a_selector_of_findings_chooses_as_one_of_kubectl(plane: ControlPlane, case: Case) -> None:
    asked = plane.kubectl("get", "deploy", "-n", HERE, "-l", case["selector"], "-o", "name")
    wanted = parse_label_selector(case["selector"])
    chosen = [
        name
        for name, labels in sorted(LABELS.items())
        if all(one.fits({**labels, "flags": "test"}) for one in wanted)
    ]
    assert [f"deployment.apps/{name}" for name in chosen] == asked.stdout.split()


@pytest.mark.parametrize("selector", ["=web", "app=web=x", "app in web", "a b"])
def test_a_selector_that_kubectl_refuses_is_refused(plane: ControlPlane, selector: str) -> None:
    assert plane.kubectl("get", "deploy", "-l", selector, check=False).returncode != 0
    with pytest.raises(ValueError, match="unable to parse requirement"):
        parse_label_selector(selector)

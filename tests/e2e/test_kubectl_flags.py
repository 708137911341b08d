"""A table of command lines: genguard prints what the real kubectl prints for the same flags.

Each row is run by both on the same objects of a real API server. The fields have other names, so
that rows with templates have two forms. Columns are compared by their words: kubectl puts one more
blank between them.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

import pytest
from click.testing import CliRunner, Result

from genguard.objects.selectors import parse_label_selector
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


class Row(NamedTuple):
    """What both are asked; `genguard` is "" where only the verb of kubectl is another one."""

    kubectl: str
    genguard: str = ""

    @property
    def words(self) -> list[str]:
        """The words of genguard."""
        return (self.genguard or self.kubectl.replace("get ", "status ", 1)).split()


PRINTED: Final = (
    Row(f"get deploy -n {HERE} -o name"),
    Row(f"get deploy -n {HERE} --output name"),
    Row(f"get deploy --namespace={HERE} --output=name"),
    Row(f"-n {HERE} get deploy -oname"),
    Row(f"--namespace {HERE} get deploy web -o name"),
    Row(f"-n {THERE} get deploy -n {HERE} -o name"),
    Row(f"get deploy/web deploy/api -n {HERE} -o name"),
    Row("get deploy -A -l flags=test -o name"),
    Row("get deploy --all-namespaces --selector flags=test -o name"),
    Row(f"get deploy -A -n {HERE} -l flags=test -o name"),
    Row(f"get deploy -n {HERE} -l app=web -o name"),
    Row(f"get deploy -n {HERE} -l app!=web -o name"),
    Row(f"get deploy -n {HERE} -l !app -o name"),
    *(
        Row(
            f"get deploy -n {HERE} --sort-by={before}metadata.name{after} -o name",
            f"status deploy -n {HERE} --sort-by={before}name{after} -o name",
        )
        for before, after in (("", ""), (".", ""), ("{.", "}"))
    ),
    Row(
        "get deploy -A -l flags=test --sort-by=.metadata.namespace"
        " -o custom-columns=NS:.metadata.namespace,NAME:.metadata.name,None:.metadata.nothing",
        "status deploy -A -l flags=test --sort-by=.namespace"
        " -o custom-columns=NS:.namespace,NAME:.name,None:.nothing",
    ),
    Row(
        f"get deploy -n {HERE} -o custom-columns=K:.kind,U:.metadata.uid --no-headers",
        f"status deploy -n {HERE} -o custom-columns=K:.kind,U:.uid --no-headers",
    ),
    Row(
        f"get deploy web -n {HERE} -o custom-columns=A:.metadata.name,B:metadata.name,C:{{.kind}}",
        f"status deploy web -n {HERE} -o custom-columns=A:.name,B:name,C:{{.kind}}",
    ),
    Row(
        f"get deploy web -n {HERE} -o jsonpath={{.kind}}/{{.metadata.name}}",
        f"status deploy web -n {HERE} -o jsonpath={{.kind}}/{{.name}}",
    ),
    Row("get deploy -n flags-nowhere -o name"),
    Row("get deploy -n flags-nowhere -o custom-columns=NAME:.name --no-headers"),
)
"""Both print the same on standard output, and end with 0."""

REFUSED: Final = (
    Row("get deploy web -A"),
    Row(f"get deploy -n {HERE} -o custom-columns"),
    Row(f"get deploy -n {HERE} -o custom-columns=NAME"),
    Row(f"get deploy -n {HERE} --sort-by=.nothing -o name"),
    Row(f"get deploy -n {HERE} --sort-by={{.name -o name"),
    Row(f"get deploy -n {HERE} -o xml"),
    Row("--context nowhere get deploy"),
    Row("get deploy --context=nowhere"),
    Row("frobnicate", "frobnicate"),
)
"""Both end with an error and print nothing on standard output."""

HELPED: Final = (
    Row("", ""),
    Row("help", "help"),
    Row("--help", "--help"),
    Row("help get", "help status"),
    Row("get --help", "status --help"),
    Row("get -h", "status -h"),
)
"""Both print help on standard output, and end with 0."""


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


@pytest.mark.parametrize("row", PRINTED, ids=lambda row: row.kubectl)
def test_it_prints_what_kubectl_prints(plane: ControlPlane, row: Row) -> None:
    asked = plane.kubectl(*row.kubectl.split())
    found = genguard(plane, row.words)
    assert found.exit_code == 0, found.output
    assert words_of(found.stdout) == words_of(asked.stdout)


def test_names_are_those_of_what_was_asked_for_and_json_has_what_it_owns(
    plane: ControlPlane,
) -> None:
    words = ["status", "deploy/job", "-n", HERE]
    assert genguard(plane, [*words, "-o", "name"]).stdout == "deployment.apps/job\n"
    lines = genguard(plane, [*words, "-o", "json"]).stdout.splitlines()
    kinds = [json.loads(line)["kind"] for line in lines]
    assert kinds == ["Deployment", "ReplicaSet"]


@pytest.mark.parametrize("row", REFUSED, ids=lambda row: row.kubectl)
def test_it_refuses_what_kubectl_refuses(plane: ControlPlane, row: Row) -> None:
    asked = plane.kubectl(*row.kubectl.split(), check=False)
    found = genguard(plane, row.words)
    assert asked.returncode != 0
    assert found.exit_code != 0
    assert (asked.stdout, found.stdout) == ("", "")
    assert found.stderr.count("\n") == 1


@pytest.mark.parametrize("row", HELPED, ids=lambda row: row.kubectl or "alone")
def test_help_is_where_kubectl_has_it(plane: ControlPlane, row: Row) -> None:
    asked = plane.kubectl(*row.kubectl.split())
    found = genguard(plane, row.genguard.split())
    assert found.exit_code == 0
    for text, stderr in ((asked.stdout, asked.stderr), (found.stdout, found.stderr)):
        assert "Usage:" in text
        assert stderr == ""
    assert ("Examples:" in found.stdout) is ("Examples:" in asked.stdout)


@pytest.mark.parametrize(
    "selector",
    [
        "app=web",
        "app==web",
        "app!=web",
        "app",
        "!app",
        "app in (web,api)",
        "tier notin (back)",
        "app,tier=back",
        "app in (web), tier!=back",
        "tier=",
        "",
        "flags=test,!app",
    ],
)
def test_a_selector_of_findings_chooses_as_one_of_kubectl(
    plane: ControlPlane, selector: str
) -> None:
    asked = plane.kubectl("get", "deploy", "-n", HERE, "-l", selector, "-o", "name")
    wanted = parse_label_selector(selector)
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

"""Each verb for a user who lacks one of the rights that it needs, on a real API server with RBAC.

A row is a verb and the rights that it needs, as kubectl names them. With all of them it does what
it is for; without one of them it says which, in one line, and never that all is well.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from click.testing import CliRunner, Result

from tests.cases_loader import read_beside
from tests.controlplane.client import wait_until
from tests.controlplane.plane import ControlPlane
from tests.e2e.genguard import Genguard
from webhook.cli import main

WHERE = "rights"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"
REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
TABLE = read_beside(__file__, "verbs.yaml")


class Row(NamedTuple):
    """A verb with its arguments, and `VERB RESOURCE` of each right that it needs."""

    arguments: str
    rights: tuple[str, ...]
    code: int = 0
    """Of a user who has them all."""
    more: tuple[str, ...] = ()
    """Rights without which the answer is the same."""


def rights(of: dict[str, list[str]]) -> tuple[str, ...]:
    """`VERB RESOURCE` of each right that verbs.yaml names."""
    every = (
        (verbs, one)
        for verbs, named in of.items()
        for each in named
        for one in TABLE["lists"].get(each, [each])
    )
    return tuple(f"{verb} {one}" for verbs, one in every for verb in verbs.split())


ROWS = {
    name: Row(
        row["arguments"], rights(row["rights"]), row.get("code", 0), rights(row.get("more", {}))
    )
    for name, row in TABLE["rows"].items()
}
ROLES = ROWS.pop("roles")


@dataclass(frozen=True)
class Users:
    """Makes users, each with a kubeconfig of his own, and runs verbs as they would."""

    plane: ControlPlane
    folder: Path
    guard: Genguard

    def run(self, name: str, row: Row, lacking: str = "") -> Result:
        rights = [one for one in (*row.more, *row.rights) if one != lacking]
        words = row.arguments.format(
            url=self.guard.url(""), ca=f"{self.guard.folder}/certs/ca.crt", web=self._web()
        ).split()
        config = self._made(name, rights)
        done = CliRunner().invoke(main, [*words, f"--kubeconfig={config}"])
        assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
        return done

    def _web(self) -> Path:
        path = self.folder / "web.json"
        path.write_text(
            json.dumps({"apiVersion": "apps/v1", "kind": "Deployment"} | deployment("web"))
        )
        return path

    def _made(self, name: str, rights: list[str]) -> Path:
        client, named = self.plane.client, {"metadata": {"name": name}}
        client.post(ACCOUNTS, named)
        rules = [_rule(one) for one in rights]
        client.post(f"{RBAC}/clusterroles", named | {"rules": rules})
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
        subject = {"kind": "ServiceAccount", "name": name, "namespace": "default"}
        bound = named | {"roleRef": role, "subjects": [subject]}
        client.post(f"{RBAC}/clusterrolebindings", bound)
        token = client.post(f"{ACCOUNTS}/{name}/token", {"spec": {}}).body["status"]["token"]
        me = client.as_user(f"system:serviceaccount:default:{name}", ("system:authenticated",))
        if rules:
            wait_until(lambda: _may(me, rules[-1]), what="rights that are granted are noticed")
        return self.plane.write_kubeconfig(self.folder / name, token)


def _rule(right: str) -> dict[str, list[str]]:
    verb, _, named = right.partition(" ")
    resource, _, group = named.partition(".")
    return {"verbs": [verb], "resources": [resource], "apiGroups": [group]}


def _may(client: Any, rule: dict[str, list[str]]) -> bool:
    (verb,), (resource,), (group,) = rule["verbs"], rule["resources"], rule["apiGroups"]
    asked = {"resourceAttributes": {"verb": verb, "resource": resource, "group": group}}
    allowed: bool = client.post(REVIEWS, {"spec": asked}).body["status"]["allowed"]
    return allowed


def deployment(name: str) -> dict[str, Any]:
    labels = {"app": name}
    template: dict[str, Any] = {"metadata": {"labels": labels}}
    template["spec"] = {"containers": [{"name": "c", "image": "c"}]}
    spec = {"replicas": 0, "selector": {"matchLabels": labels}, "template": template}
    return {"metadata": {"name": name}, "spec": spec}


@pytest.fixture(scope="module")
def users(apiserver: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Users]:
    client = apiserver.client
    client.post("/api/v1/namespaces", {"metadata": {"name": WHERE}})
    path = f"/apis/apps/v1/namespaces/{WHERE}/deployments"
    for name in ("web", "late"):
        client.post(path, deployment(name))
    conditions = [{"type": kind, "status": "True"} for kind in ("Available", "Progressing")]
    conditions[1]["reason"] = "NewReplicaSetAvailable"
    status = {"observedGeneration": 1, "conditions": conditions}
    client.patch(f"{path}/web/status", {"status": status})
    with Genguard() as guard:
        yield Users(apiserver, tmp_path_factory.mktemp("users"), guard)


@pytest.fixture(autouse=True)
def no_registrations(apiserver: ControlPlane) -> Iterator[None]:
    """What install makes is deleted; nobody finalizes its namespaces here."""
    yield
    for kind in ("mutatingwebhookconfigurations", "validatingwebhookconfigurations"):
        found = f"/apis/admissionregistration.k8s.io/v1/{kind}"
        for one in apiserver.client.get(found).body["items"]:
            if "genguard" in one["metadata"]["name"]:
                apiserver.client.delete(f"{found}/{one['metadata']['name']}")


@pytest.mark.parametrize("name", ROWS)
def test_with_the_rights_that_it_needs_it_does_what_it_is_for(users: Users, name: str) -> None:
    done = users.run(f"{slug(name)}-all", ROWS[name])
    assert int(done.exit_code) == ROWS[name].code, done.output
    assert "forbidden" not in done.output


@pytest.mark.parametrize(
    ("name", "right"),
    [(name, right) for name, row in ROWS.items() for right in row.rights],
    ids=lambda text: text.partition(".")[0],
)
def test_a_right_that_is_missing_is_named_and_nothing_seems_whole(
    users: Users, name: str, right: str
) -> None:
    number = ROWS[name].rights.index(right)
    done = users.run(f"{slug(name)}-{number}", ROWS[name], right)
    assert int(done.exit_code) == 1, done.output
    verb, _, resource = right.partition(" ")
    plural = resource.partition(".")[0]
    named = [
        line
        for line in done.output.splitlines()
        if (f'cannot {verb} resource "{plural}"' in line or f"may not {verb} {resource}" in line)
    ]
    assert named, done.output
    assert re.search("kubectl auth (can-i|whoami)|a trace must", done.output), done.output
    assert max(map(len, done.output.splitlines())) < 700
    assert not re.search(r"Traceback|^reached|^installed|^gone", done.output, re.MULTILINE)


def test_who_may_not_give_the_server_its_rights_hears_who_may(users: Users) -> None:
    """The API server lists each right that is lacking on a line of its own."""
    done = users.run("roles", ROLES)
    assert int(done.exit_code) == 1
    (line,) = done.output.splitlines()
    assert "attempting to grant RBAC permissions not currently held" in line
    assert line.endswith(
        "let somebody install it who has these rights, such as a cluster administrator"
    )


def test_what_is_shown_once_needs_no_right_to_watch(users: Users) -> None:
    row = ROWS["status"]._replace(more=())
    done = users.run("status-once", row)
    assert (int(done.exit_code), "this is not all" in done.output) == (0, False)


def slug(name: str) -> str:
    return name.replace(" ", "-")

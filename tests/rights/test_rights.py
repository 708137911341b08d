"""What genguard's service account may do, as a real API server with RBAC answers it.

The lists in granted/ are for people to read in a review: a right more shows as a line more.
"""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from genguard.versions import SENT_TO_NO_WEBHOOK
from tests.cases_loader import read_beside
from tests.controlplane.client import wait_until
from tests.controlplane.granting import SYSTEM, granted
from tests.controlplane.plane import ControlPlane
from tests.rights.listing import GENGUARD, GRANTED, OVERLAYS, completed, listing, may, rendered
from tests.unit.manifest_files import registrations

WATCHED = {
    f"{main}{f'.{group}' if group else ''}{f'/{subresource}' if subresource else ''}"
    for rule in registrations()["outcome"]["webhooks"][0]["rules"]
    for group in rule["apiGroups"]
    for resource in rule["resources"]
    for main, _, subresource in [resource.partition("/")]
}
"""As kubectl writes them."""
FORBIDDEN = read_beside(__file__, "forbidden.yaml")


@pytest.fixture(scope="module", params=OVERLAYS)
def overlay(
    request: pytest.FixtureRequest,
    apiserver: ControlPlane,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[str]:
    """What it grants is there."""
    manifests: Path = completed(tmp_path_factory.mktemp("rights"))
    documents = rendered(apiserver, manifests, request.param)
    names = [one["metadata"]["name"] for one in documents if one["kind"] == "ServiceAccount"]
    assert GENGUARD.rpartition(":")[2] in names
    with granted(apiserver, documents):
        yield request.param


def test_rights_are_those_of_the_list(apiserver: ControlPlane, overlay: str) -> None:
    expected = (GRANTED / f"{overlay}.txt").read_text()

    def agrees() -> bool:
        assert listing(apiserver) == expected, "where it is meant: python -m tests.rights"
        return True

    wait_until(agrees, what="rights that are granted are noticed")


def test_what_must_never_be_granted_is_not(apiserver: ControlPlane, overlay: str) -> None:
    for question, harm in FORBIDDEN:
        for namespace in (SYSTEM, "kube-system", ""):
            assert not may(apiserver, namespace, *question), (question, namespace, harm)


def test_the_questions_are_ones_that_can_be_answered_with_yes(apiserver: ControlPlane) -> None:
    """Else a slip of the pen would forbid nothing."""
    role = {"metadata": {"name": "genguard-everything"}}
    rules = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]
    roles, bindings = (
        f"/apis/rbac.authorization.k8s.io/v1/{plural}"
        for plural in ("clusterroles", "clusterrolebindings")
    )
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole"}
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": GENGUARD}
    apiserver.client.post(roles, {**role, "rules": rules})
    bound = {**role, "roleRef": {**reference, "name": "genguard-everything"}, "subjects": [subject]}
    apiserver.client.post(bindings, bound)
    try:
        for question, _ in FORBIDDEN:
            wait_until(partial(may, apiserver, "", *question), what=str(question))
    finally:
        apiserver.client.delete(f"{bindings}/genguard-everything")
        apiserver.client.delete(f"{roles}/genguard-everything")


@pytest.mark.parametrize("name", OVERLAYS)
def test_lists_name_what_a_right_is_limited_to_where_a_name_can_be_given(name: str) -> None:
    """A name cannot be set on what is yet to be created, nor on what is listed with others.

    Nor on what is looked up, which are the objects that the registrations watch, and those that are
    sent to no webhook; or healed, which is the status of the former; nor on its own pods, whose
    names a ReplicaSet makes.
    """
    for line in (GRANTED / f"{name}.txt").read_text().splitlines():
        verbs, _, rest = line.partition("] ")
        changes = {"get", "update", "patch", "delete"} & set(verbs.strip("[").split())
        if changes == {"get"} and rest in (*WATCHED, *SENT_TO_NO_WEBHOOK, "nodes"):
            continue
        if changes <= {"get", "patch"} and rest == "pods" and line in _of_own_namespace(name):
            continue
        if changes == {"patch"} and rest.endswith("/status") and rest in WATCHED:
            continue
        assert line.startswith("#") or not changes or rest.endswith("]"), line
        assert "*" not in line


def _of_own_namespace(name: str) -> list[str]:
    own, _, _ = (GRANTED / f"{name}.txt").read_text().partition("# in any other\n")
    return own.splitlines()


@pytest.mark.parametrize("name", OVERLAYS)
def test_pods_are_patched_only_in_its_own_namespace(name: str) -> None:
    patched = [
        line
        for line in (GRANTED / f"{name}.txt").read_text().splitlines()
        if line.endswith("] pods") and "patch" in line
    ]
    assert patched
    assert set(patched) <= set(_of_own_namespace(name))


@pytest.mark.parametrize("name", OVERLAYS)
def test_status_is_patched_only_where_genguard_enforces(name: str) -> None:
    found = "[patch] " in (GRANTED / f"{name}.txt").read_text()
    assert found is (name in {"enforce", "ha", "cert-manager"})


def test_every_list_is_of_an_overlay() -> None:
    assert {path.stem for path in GRANTED.iterdir()} == set(OVERLAYS)

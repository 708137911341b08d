"""`--ops-auth kubernetes` against a real API server, with the rights of manifests/ops-auth."""

import http.client
import ssl
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.controlplane.client import wait_until
from tests.controlplane.granting import granted
from tests.controlplane.plane import ControlPlane
from tests.e2e.genguard import Genguard
from tests.manifests_copied import with_component
from tests.waiting import PATIENCE

_ACCOUNTS = "/api/v1/namespaces/genguard-system/serviceaccounts"


@pytest.fixture(scope="module")
def folder(apiserver: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The identities and rights of the component, and two people of whom one may look."""
    folder = tmp_path_factory.mktemp("ops-auth")
    found = with_component(apiserver, folder, "ops-auth")
    for name in ("viewer", "other"):
        metadata = {"name": name, "namespace": "genguard-system"}
        found.append({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata})
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "genguard-view"}
    subject = {"kind": "ServiceAccount", "name": "viewer", "namespace": "genguard-system"}
    found.append(
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": "viewer"},
            "roleRef": role,
            "subjects": [subject],
        }
    )
    with granted(apiserver, found):
        yield folder


def token(apiserver: ControlPlane, name: str) -> str:
    found: str = apiserver.client.post(f"{_ACCOUNTS}/{name}/token", {"spec": {}}).body["status"][
        "token"
    ]
    return found


@pytest.fixture(scope="module")
def guard(apiserver: ControlPlane, folder: Path) -> Iterator[Genguard]:
    path = apiserver.write_kubeconfig(folder / "kubeconfig", token(apiserver, "genguard"))
    with Genguard(f"--kubeconfig={path}", "--ops-auth=kubernetes", "--ops-tls") as guard:
        yield guard


def status(guard: Genguard, path: str, token: str = "") -> int:
    trust = ssl.create_default_context(cafile=str(guard.folder / "certs" / "ca.crt"))
    where = urlsplit(guard.ops_url)
    connection = http.client.HTTPSConnection(where.netloc, timeout=PATIENCE, context=trust)
    try:
        connection.request(
            "GET", path, headers={"Authorization": f"Bearer {token}"} if token else {}
        )
        answer = connection.getresponse()
        answer.read()
        return answer.status
    finally:
        connection.close()


def test_who_may_get_the_url_sees_the_dashboard_and_nobody_else(
    apiserver: ControlPlane, guard: Genguard
) -> None:
    known = {name: token(apiserver, name) for name in ("viewer", "other", "genguard-metrics")}
    # The authorizer learns of new bindings in its own time.
    wait_until(lambda: status(guard, "/", known["viewer"]) == 200, what="the right to look")
    for path in ("/", "/api/findings", "/api/objects", "/api/server"):
        assert status(guard, path, known["viewer"]) == 200
        assert status(guard, path, known["other"]) == 403
        assert status(guard, path, known["genguard-metrics"]) == 403
        assert status(guard, path, "made.up.token") == 401
        assert status(guard, path) == 401


def test_metrics_are_a_right_of_their_own_and_probes_take_none(
    apiserver: ControlPlane, guard: Genguard
) -> None:
    scraper, viewer = (token(apiserver, name) for name in ("genguard-metrics", "viewer"))
    wait_until(lambda: status(guard, "/metrics", scraper) == 200, what="the right to scrape")
    assert status(guard, "/metrics", viewer) == 403
    assert status(guard, "/metrics") == 401
    assert status(guard, "/livez") == status(guard, "/readyz") == 200


def test_the_server_needs_the_right_to_ask(
    apiserver: ControlPlane, folder: Path, guard: Genguard
) -> None:
    del guard  # the identities are there by now
    path = apiserver.write_kubeconfig(folder / "without", token(apiserver, "other"))
    viewer = token(apiserver, "viewer")
    with Genguard(f"--kubeconfig={path}", "--ops-auth=kubernetes", "--ops-tls") as powerless:
        assert status(powerless, "/", viewer) == 503
        (line, *_) = wait_until(lambda: powerless.log_lines("token not reviewed"))
        assert line["status"] == 403
        assert viewer not in (powerless.folder / "genguard.log").read_text()

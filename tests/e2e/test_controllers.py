"""`genguard findings --controllers`: a controller that raises observedGeneration early, live."""

import re

from tests.controlplane.client import wait_until
from tests.controlplane.fixtures import NamespaceFactory
from tests.controlplane.plane import ControlPlane
from tests.e2e.culprits import deployment
from tests.e2e.genguard import Genguard
from tests.e2e.registrations import registered
from tests.e2e.verbs import run

_ROUNDS = 9


def test_a_controller_that_raises_it_early_is_listed_and_found(
    apiserver: ControlPlane, namespace: NamespaceFactory
) -> None:
    where = namespace(apiserver)
    path = f"/apis/apps/v1/namespaces/{where}/deployments"
    person, operator = apiserver.client, apiserver.client.as_user("operator", ["system:masters"])
    with (
        Genguard("--audit-only", f"--kubeconfig={apiserver.kubeconfig}") as guard,
        registered(apiserver, where, guard),
    ):
        person.post(path, deployment("web"))

        def early() -> float:
            return guard.metric("genguard_observed_generation_total", user="operator", how="early")

        # On a busy machine a review is late once in a while, and so lost: then there are more.
        for replicas in range(3, 3 + 3 * _ROUNDS):
            if replicas >= 3 + _ROUNDS and early() >= _ROUNDS - 1:
                break
            found = person.patch(f"{path}/web", {"spec": {"replicas": replicas}}).body
            raised = {"observedGeneration": found["metadata"]["generation"]}
            operator.patch(f"{path}/web/status", {"status": raised})
            for available in ("False", "True"):
                one = {"type": "Available", "status": available}
                operator.patch(f"{path}/web/status", {"status": {"conditions": [one]}})

        def is_found() -> bool:
            found = guard.findings()
            return any(one["detector"] == "observed-generation-dishonest" for one in found)

        wait_until(is_found, what="the finding")
        server = f"--server={guard.ops_url}"
        table = run(apiserver, "findings", "--controllers", server)
        refused = run(apiserver, "findings", "--controllers", "-n", where, server, code=2)
        counted = early()
    row = next(line for line in table.out.splitlines() if line.startswith("operator"))
    told = re.search(r"deployments\.apps +(\d+) +(\d+) \(", row)
    assert told, row
    assert int(told[2]) == counted < int(told[1])
    assert "--controllers takes" in refused.err
    assert counted >= _ROUNDS - 1

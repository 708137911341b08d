"""Forged reviews: their findings do not alert, as a real API server does not know the objects."""

import json
from typing import Any

from tests.controlplane.client import wait_until
from tests.controlplane.fixtures import NamespaceFactory
from tests.controlplane.plane import ControlPlane
from tests.e2e.genguard import Genguard
from tests.reviews import make_review

HOSTILE = 'a"\n<b>{{x}}\x1b[2J\x9b31m\u202e\u2028' + "\u6f22" * 1_000
LONGEST_NAME = HOSTILE[:253]
"""An API server lets no longer name through, and genguard does not remember much longer ones."""


def forge(guard: Genguard, metadata: dict[str, Any], user: str = "someone") -> None:
    """A status that is cleared again and again by a webhook, on an object that is named."""
    connection = guard.admission()
    for version in range(5):
        stored = {"metadata": {**metadata, "resourceVersion": str(version)}, "status": {}}
        asked = {**stored, "status": {"observedGeneration": 2, "replicas": version}}
        left = {**stored, "status": {"replicas": version}}
        for phase, new in (("intent", asked), ("mutate", left), ("outcome", left)):
            review = make_review("UPDATE", "services", new, stored, subresource="status", user=user)
            review["request"] |= {key: metadata[key] for key in ("name", "namespace")}
            body = json.dumps(review)
            connection.request("POST", f"/{phase}", body, {"Content-Type": "application/json"})
            assert connection.getresponse().read()
    connection.close()


def test_only_what_the_api_server_knows_is_told_in_events(
    apiserver: ControlPlane, namespace: NamespaceFactory
) -> None:
    where = namespace(apiserver)
    path = f"/api/v1/namespaces/{where}/services"
    spec = {"ports": [{"port": 80}]}
    made = apiserver.client.post(path, {"metadata": {"name": "real"}, "spec": spec}).body
    real = {key: made["metadata"][key] for key in ("name", "namespace", "uid")}
    with Genguard("--events", f"--kubeconfig={apiserver.kubeconfig}") as guard:
        forge(guard, {"name": "never-was", "namespace": where, "uid": "forged", "generation": 2})
        forge(guard, {**real, "uid": "another", "generation": 2})
        forge(guard, {**real, "generation": 2})

        def told() -> list[dict[str, Any]]:
            found = apiserver.client.get(f"/apis/events.k8s.io/v1/namespaces/{where}/events").body
            return [one for one in found["items"] if "unverified" not in one["note"]]

        wait_until(told, what="an Event of the one that is real")
        findings = guard.findings()
        assert {one["object"]["uid"] for one in findings} == {"forged", "another", real["uid"]}
        assert {one["regarding"]["uid"] for one in told()} == {real["uid"]}


def test_an_event_is_made_whatever_a_user_is_called_and_all_of_it_is_printable(
    apiserver: ControlPlane, namespace: NamespaceFactory
) -> None:
    where = namespace(apiserver)
    path = f"/api/v1/namespaces/{where}/services"
    name = "n" * 63
    made = apiserver.client.post(
        path, {"metadata": {"name": name}, "spec": {"ports": [{"port": 80}]}}
    ).body
    real = {key: made["metadata"][key] for key in ("name", "namespace", "uid")}
    with Genguard("--events", f"--kubeconfig={apiserver.kubeconfig}") as guard:
        forge(guard, {**real, "generation": 2}, HOSTILE)
        forge(guard, {**real, "name": LONGEST_NAME, "uid": "forged", "generation": 2}, HOSTILE)

        def told() -> list[dict[str, Any]]:
            found = apiserver.client.get(f"/apis/events.k8s.io/v1/namespaces/{where}/events").body
            # The API server tells of a Service, too: "Cluster IP is not allocated; repairing".
            ours = (one for one in found["items"] if one.get("reportingInstance") == "genguard")
            return [one for one in ours if one["regarding"]["name"] == name]

        (first, *_) = wait_until(told, what="an Event")
        assert first["note"].isprintable()
        assert "<b>{{x}}" in first["note"]
        assert first["note"].endswith("By: unknown")
        assert len(first["note"].encode()) <= 1_024
        assert not guard.log_lines("event not created")
        status, body = guard.ops("/api/findings")
        assert (status, body.isprintable()) == (200, True)
        assert LONGEST_NAME in {one["object"]["name"] for one in json.loads(body)["findings"]}
        log = (guard.folder / "genguard.log").read_text()
        assert [sign for sign in log if not " " <= sign <= "~" and sign != "\n"] == []
        assert len(log.splitlines()) == len(guard.log_lines())

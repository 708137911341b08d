"""`genguard scan` on a real cluster: it names who strips, who fights and what is stuck."""

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from genguard.detection.since import first_version
from genguard.generation.strategy import parse_version
from genguard.objects.fields import get, to_pointer
from tests.beside import Again
from tests.controlplane.fixtures import NamespaceFactory, unique
from tests.controlplane.plane import ControlPlane
from tests.controlplane.webhook_listener import Patch, WebhookListener
from tests.e2e.account import Account
from tests.e2e.tracing import annotates
from tests.e2e.verbs import Verb

SETTING = Path(__file__).with_name("scan.yaml")
WRITES = {"create", "update", "patch", "delete", "deletecollection"}
Json = dict[str, Any]


def decodes(minor: int, place: str) -> Callable[[Mapping[str, Any]], Patch]:
    """Decodes what is at a place with the API of Kubernetes 1.`minor`, and encodes it again."""

    def strip(request: Mapping[str, Any]) -> Patch:
        of = request["resource"]["group"], request["resource"]["resource"]

        def known(value: Any, at: str) -> Any:
            if isinstance(value, list):
                return [known(one, f"{at}/*") for one in value]
            if not isinstance(value, dict):
                return value
            since = {key: first_version(*of, f"{at}/{to_pointer((key,))[1:]}") for key in value}
            kept = [key for key, one in since.items() if parse_version(one or "1.0") <= (1, minor)]
            return {key: known(value[key], f"{at}{to_pointer((key,))}") for key in kept}

        found = get(request["object"], *place.split("/")[1:])
        return [{"op": "replace", "path": place, "value": known(found, place)}]

    return strip


@contextmanager
def there(plane: ControlPlane, name: str, namespace: str) -> Iterator[None]:
    """Everything of scan.yaml, until it is left."""
    text = SETTING.read_text().replace("NAMESPACE", namespace).replace("NAME", name)
    plane.kubectl("apply", "-f", "-", stdin=text)
    try:
        yield
    finally:
        plane.kubectl("delete", "--wait=false", "-f", "-", stdin=text)


def writes(plane: ControlPlane, account: str) -> list[Json]:
    """What an account has asked to be written, as the API server has audited it."""
    user = f"system:serviceaccount:default:{account}"
    events = map(json.loads, plane.audit_log.read_text().splitlines())
    return [one for one in events if one["verb"] in WRITES and one["user"]["username"] == user]


def scans(plane: ControlPlane, account: str, folder: Path, *flags: str) -> Verb:
    found = Account(plane, "default", folder / account, account)
    found.client.close()
    return Verb(plane, "scan", "--timeout=20s", f"--kubeconfig={found.kubeconfig}", *flags)


def told(verb: Verb) -> dict[tuple[str, str], Json]:
    lines = map(json.loads, verb.out.splitlines()[:-1])
    return {(one["found"], one["about"]): one for one in lines}


def culprits(line: Json) -> list[str]:
    return sorted(one["name"] for one in line["actors"])


def test_a_scan_names_six_culprits_and_stores_nothing(
    cluster: ControlPlane, namespace: NamespaceFactory, tmp_path: Path
) -> None:
    harmed, other = namespace(cluster), namespace(cluster)
    pods, templates, good, mine = map(unique, ("old-pods", "old-templates", "good", "scan"))

    def write(turn: int) -> None:
        for name, manager in ("settings", ("helm", "operator")[turn % 2]), ("state", "busy"):
            path = f"/api/v1/namespaces/{harmed}/configmaps/{name}"
            params = {"fieldManager": manager}
            cluster.client.patch(path, {"data": {"a": str(turn % 2)}}, params=params)

    key = "kubernetes.io/metadata.name"
    both = {"matchExpressions": [{"key": key, "operator": "In", "values": [harmed, other]}]}
    kinds = ["pods", "deployments"]
    with (
        there(cluster, mine, harmed),
        WebhookListener(cluster.authority, decodes(29, "/spec")) as old,
        WebhookListener(cluster.authority, decodes(27, "/spec/template/spec")) as older,
        WebhookListener(cluster.authority, annotates) as annotating,
        old.registered(cluster, harmed, kinds[:1], pods),
        older.registered(cluster, harmed, kinds[1:], templates),
        annotating.registered(cluster, harmed, kinds, good, namespaceSelector=both),
        Again(write, 0.5),
        ExitStack() as stack,
    ):
        began = time.monotonic()
        scan, reading, shown = (
            stack.enter_context(scans(cluster, f"{mine}-{who}", tmp_path, *flags))
            for who, *flags in (("all", "-o", "json"), ("read", "-o", "json"), ("all",))
        )
        for one in (scan, reading, shown):
            one.ends(1)
        assert time.monotonic() - began < 50  # meant: with the usual 60 s that is 90

    found, read = told(scan), told(reading)
    for who, kind, versions in ((pods, "pods", "1.29"), (templates, "deployments.apps", "1.27")):
        one = found["field-stripped", kind]
        assert (one["severity"], culprits(one)) == ("critical", [f"{who}/reviews.example.org"])
        assert one["message"].endswith(f"built with the API of Kubernetes {versions}")
        assert any(at.endswith("/appArmorProfile") for at in one["paths"])
    failing = found["webhook-fails", f"services in {harmed}"]
    assert culprits(failing) == [f"{mine}-down/down.example.org"]
    for lines in found, read:
        fought = lines["spec-fight", f"configmaps {harmed}/settings"]
        assert (culprits(fought), fought["paths"]) == (["helm", "operator"], ["/data/a"])
        busy = lines["generation-storm", f"configmaps {harmed}/state"]
        assert culprits(busy) == ["busy"]
        assert "Unschedulable" in lines["stuck", f"Deployment/stuck -n {harmed}"]["message"]
    assert "objects of 13 kinds as dry runs" in scan.err
    assert reading.err.count("you may not create them") == 1
    assert not {"field-stripped", "webhook-fails"} & {what for what, _ in read}

    page = shown.out.splitlines()
    assert len(page) <= 20
    assert [line.split()[1] for line in page[:3]] == [*2 * ["field-stripped:"], "webhook-fails:"]
    for who, codes in ("all", {201, 500}), ("read", {403}):
        asked = writes(cluster, f"{mine}-{who}")
        assert len(asked) >= 13
        assert all("dryRun=All" in one["requestURI"] for one in asked)
        assert {one["responseStatus"]["code"] for one in asked} == codes


def test_a_cluster_that_cannot_be_asked_is_told_apart_from_one_that_is_well(
    apiserver: ControlPlane, tmp_path: Path
) -> None:
    nobody = apiserver.write_kubeconfig(tmp_path / "kubeconfig", "no-token")
    with Verb(apiserver, "scan", "--timeout=1s", f"--kubeconfig={nobody}") as scan:
        scan.ends(2)
    assert "log in again" in scan.err or "Unauthorized" in scan.err

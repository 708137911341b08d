"""Six culprits for `genguard scan`, of which two webhooks strip fields: on any cluster."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from genguard.detection.since import first_version
from genguard.generation.strategy import parse_version
from genguard.objects.fields import get, to_pointer
from tests.beside import Again
from tests.controlplane.certificates import Authority
from tests.controlplane.fixtures import unique
from tests.controlplane.webhook_listener import HasClient, Patch, WebhookListener
from tests.e2e.tracing import annotates

SETTING = Path(__file__).with_name("scan.yaml")
WRITES = {"create", "update", "patch", "delete", "deletecollection"}
Json = dict[str, Any]


class Names(NamedTuple):
    """What they are called. `all` may create everything, and `read` may only read."""

    namespace: str
    pods: str
    templates: str
    down: str
    all: str
    read: str


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
def six_culprits(
    cluster: HasClient,
    kubectl: Callable[..., object],
    authority: Authority,
    namespaces: tuple[str, str],
    address: str = "127.0.0.1",
) -> Iterator[Names]:
    """Everything of scan.yaml, with what writes again and again, until it is left.

    kubectl  takes words, and what is its standard input as `text`
    address  where the API server reaches this machine
    """
    harmed, other = namespaces
    mine, pods, templates, good = map(unique, ("scan", "old-pods", "old-templates", "good"))

    def write(turn: int) -> None:
        for name, manager in ("settings", ("helm", "operator")[turn % 2]), ("state", "busy"):
            path = f"/api/v1/namespaces/{harmed}/configmaps/{name}"
            params = {"fieldManager": manager}
            cluster.client.patch(path, {"data": {"a": str(turn % 2)}}, params=params)

    key = "kubernetes.io/metadata.name"
    both = {"matchExpressions": [{"key": key, "operator": "In", "values": [harmed, other]}]}
    text = SETTING.read_text().replace("NAMESPACE", harmed).replace("NAME", mine)
    kinds = ["pods", "deployments"]
    with ExitStack() as stack:
        kubectl("apply", "-f", "-", text=text)
        stack.callback(kubectl, "delete", "--wait=false", "-f", "-", text=text)
        for patch, resources, name, more in (
            (decodes(29, "/spec"), kinds[:1], pods, {}),
            (decodes(27, "/spec/template/spec"), kinds[1:], templates, {}),
            (annotates, kinds, good, {"namespaceSelector": both}),
        ):
            listener = stack.enter_context(WebhookListener(authority, patch, address))
            stack.enter_context(listener.registered(cluster, harmed, resources, name, **more))
        stack.enter_context(Again(write, 0.5))
        yield Names(harmed, pods, templates, f"{mine}-down", f"{mine}-all", f"{mine}-read")


def told(out: str) -> dict[tuple[str, str], Json]:
    """The lines of `genguard scan -o json` by what was found and where."""
    lines = map(json.loads, out.splitlines()[:-1])
    return {(one["found"], one["about"]): one for one in lines}


def assert_all_are_named(names: Names, scan: str, reading: str) -> None:
    """Six by an account that may create; dry runs alone show three of them."""
    found, read = told(scan), told(reading)
    for who, kind, versions in (
        (names.pods, "pods", "1.29"),
        (names.templates, "deployments.apps", "1.27"),
    ):
        one = found["field-stripped", kind]
        assert (one["severity"], _culprits(one)) == ("critical", [f"{who}/reviews.example.org"])
        assert one["message"].endswith(f"built with the API of Kubernetes {versions}")
        assert any(at.endswith("/appArmorProfile") for at in one["paths"])
    failing = found["webhook-fails", f"services in {names.namespace}"]
    assert _culprits(failing) == [f"{names.down}/down.example.org"]
    for lines in found, read:
        fought = lines["spec-fight", f"configmaps {names.namespace}/settings"]
        assert (_culprits(fought), fought["paths"]) == (["helm", "operator"], ["/data/a"])
        busy = lines["generation-storm", f"configmaps {names.namespace}/state"]
        assert _culprits(busy) == ["busy"]
        stuck = lines["stuck", f"Deployment/stuck -n {names.namespace}"]
        assert "Unschedulable" in stuck["message"]
    assert not {"field-stripped", "webhook-fails"} & {what for what, _ in read}


def assert_only_dry_runs(names: Names, audit_log: str) -> int:
    """Of both accounts; the number of their writes. Only one of them may."""
    events = map(json.loads, audit_log.splitlines())
    done = [one for one in events if one["stage"] == "ResponseComplete"]
    count = 0
    for who, codes in (names.all, {201, 500}), (names.read, {403}):
        user = f"system:serviceaccount:default:{who}"
        mine = [one for one in done if one["user"]["username"] == user]
        asked = [one for one in mine if one["verb"] in WRITES]
        assert len(asked) >= 13
        assert all("dryRun=All" in one["requestURI"] for one in asked)
        assert {one["responseStatus"]["code"] for one in asked} == codes
        count += len(asked)
    return count


def _culprits(line: Json) -> list[str]:
    return sorted(one["name"] for one in line["actors"])

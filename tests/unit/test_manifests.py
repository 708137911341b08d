"""The server's manifests: what each field is for, so that none is lost by an edit."""

import itertools
from typing import Any

from tests.cases_loader import table
from tests.unit.manifest_files import (
    MANIFESTS,
    container,
    documents,
    kustomization,
    pod_spec,
    registrations,
    server_objects,
    webhook_of,
)
from tools.published import current
from webhook.cli.publish_status import LEASE, publish_status
from webhook.server.options import Limits

OBJECTS = server_objects()
VALKEY = {one["kind"]: one for one in documents(MANIFESTS / "valkey" / "server.yaml")}
DEPLOYMENT = OBJECTS["Deployment"]["spec"]


def at(value, path):
    """The value under a path of keys and indexes; None when one is not there."""
    for key in path.split("."):
        if isinstance(value, list):
            value = dict(enumerate(value)).get(int(key))
        else:
            value = value.get(key) if isinstance(value, dict) else None
    return value


@table("manifests/fields.yaml", "file", "kind", "path", "value")
def test_a_field_is_as_its_reason_wants_it(case):
    known = {"server": OBJECTS, "valkey": VALKEY}.get(case["file"])
    if known is None:
        known = {one["kind"]: one for one in documents(MANIFESTS / case["file"])}
    assert at(known[case["kind"]], case["path"]) == case["value"], case.because


def test_pods_are_told_to_end_later_than_the_server_needs():
    limits = Limits()
    (delay,) = [one for one in container()["args"] if one.startswith("--shutdown-delay=")]
    seconds = int(delay.removeprefix("--shutdown-delay=").removesuffix("s"))
    needed = seconds + limits.drain_seconds + limits.body_seconds
    assert needed + 5 <= pod_spec()["terminationGracePeriodSeconds"]


def test_everything_is_in_the_one_namespace():
    for kind, found in OBJECTS.items():
        if kind not in {"Namespace", "ClusterRole", "ClusterRoleBinding"}:
            assert found["metadata"]["namespace"] == OBJECTS["Namespace"]["metadata"]["name"], kind


def test_the_quota_lets_the_priority_class_in():
    spec = OBJECTS["ResourceQuota"]["spec"]
    (expression,) = spec["scopeSelector"]["matchExpressions"]
    assert expression["values"] == [pod_spec()["priorityClassName"]]
    most = DEPLOYMENT["replicas"] + DEPLOYMENT["strategy"]["rollingUpdate"]["maxSurge"]
    assert int(spec["hard"]["pods"]) >= most


def watched(name="outcome"):
    """API group and resource of all that a registration watches."""
    return {
        (group, resource)
        for rule in webhook_of(registrations()[name])["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }


WATCH = ["get", "list", "watch"]


def granted(rules, *verbs: str):
    """The same of what the rules of a role grant, for rules that grant this and nothing else."""
    return [
        (group, resource)
        for rule in rules
        if rule["verbs"] == list(verbs) and "resourceNames" not in rule
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    ]


def test_the_valkey_keeps_nothing_and_is_reached_over_tls_alone():
    pod = VALKEY["StatefulSet"]["spec"]["template"]["spec"]
    words = pod["containers"][0]["command"]
    flags = {flag: value for flag, value in itertools.pairwise(words) if flag.startswith("--")}
    assert (flags["--save"], flags["--appendonly"], flags["--port"]) == ("", "no", "0")


def test_what_is_watched_may_be_looked_up_and_nothing_else():
    rules = OBJECTS["ClusterRole"]["rules"]
    registrations = "admissionregistration.k8s.io"
    watched_objects = [one for one in granted(rules, *WATCH) if one[0] != registrations]
    found = [*granted(rules, "get"), *watched_objects]
    assert sorted(found) == sorted(one for one in watched() if "/" not in one[1])
    assert ("", "secrets") not in found


def test_heal_may_patch_every_status_that_is_watched_and_nothing_else():
    role, binding = documents(MANIFESTS / "heal" / "access.yaml")
    assert all(rule["verbs"] == ["patch"] for rule in role["rules"])
    found = granted(role["rules"], "patch")
    assert sorted(found) == sorted(one for one in watched() if one[1].endswith("/status"))
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    assert binding["subjects"] == OBJECTS["ClusterRoleBinding"]["subjects"]


def test_the_image_has_the_version_of_the_package_and_no_moving_tag():
    assert container()["image"] == current().image
    assert container()["imagePullPolicy"] == "IfNotPresent"


def published(name: str) -> list[dict[str, Any]]:
    return documents(MANIFESTS / "publish-status" / name)


def test_publish_status_has_rights_of_its_own_and_writes_nothing_until_a_kind_is_granted():
    assert kustomization(MANIFESTS / "publish-status")["kind"] == "Component"
    account, aggregated, base, binding, role, own = published("access.yaml")
    label = {"genguard.io/publish-status": "true"}
    assert aggregated["aggregationRule"] == {"clusterRoleSelectors": [{"matchLabels": label}]}
    assert base["metadata"]["labels"] == label
    verbs = {verb for rule in base["rules"] for verb in rule["verbs"]}
    assert verbs == {"get", "list", "watch", "create"}
    assert sorted(granted(base["rules"], "create")) == [("events.k8s.io", "events")]
    assert {one["resourceNames"][0] for one in role["rules"] if "resourceNames" in one} == {LEASE}
    for bound, to in ((binding, aggregated), (own, role)):
        assert bound["roleRef"]["name"] == to["metadata"]["name"]
        assert [one["name"] for one in bound["subjects"]] == [account["metadata"]["name"]]
    assert account["metadata"]["name"] != OBJECTS["ServiceAccount"]["metadata"]["name"]


def test_the_pods_of_publish_status_get_no_reviews_and_keep_the_restricted_standard():
    (workload,) = published("deployment.yaml")
    template = workload["spec"]["template"]
    assert template["metadata"]["labels"] == workload["spec"]["selector"]["matchLabels"]
    assert template["metadata"]["labels"] != OBJECTS["Service"]["spec"]["selector"]
    pod = template["spec"]
    (one,) = pod["containers"]
    assert one["image"] == container()["image"]
    assert one["securityContext"] == container()["securityContext"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    verb, *words = one["args"]
    assert verb == publish_status.name
    flags = publish_status.make_context(verb, [*words, "widgets.example.org"]).params
    assert flags["all_namespaces"] is True
    assert flags["kinds"] == ("widgets.example.org",)

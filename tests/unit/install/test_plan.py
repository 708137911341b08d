"""What installing does to objects, worked out without a cluster."""

import manifests
from tests.cases_loader import table
from webhook.install.plan import MANAGED_BY, Action, Step, compare, merged
from webhook.manifest.documents import path_of
from webhook.manifest.rendering import Choices, is_registration, render

SERVICE = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"name": "genguard", "namespace": "here"},
    "spec": {"ports": [{"port": 443}]},
}
METADATA = SERVICE["metadata"]
PAIR = {"tls.crt": b"leaf", "tls.key": b"key", "ca.crt": b"authority"}
REGISTRATIONS = [one for one in render(Choices(), manifests.read, PAIR) if is_registration(one)]
MUTATE = REGISTRATIONS[1]


@table("manifests/updated_fields.yaml", "would", "fields")
def test_an_object_is_updated_in_the_fields_that_would_differ(case):
    step = compare(SERVICE, SERVICE, SERVICE | case["would"])
    assert step.fields == tuple(case["fields"]), case.because
    assert step.action is (Action.UPDATE if case["fields"] else Action.UNCHANGED)


def test_a_step_reads_as_kubectl_takes_it_and_tells_no_contents():
    assert compare(SERVICE, None, SERVICE).action is Action.CREATE
    fields = tuple(f"data.{name}" for name in "abcde")
    assert str(Step(Action.UPDATE, SERVICE, fields, "a new one")) == (
        "update    service/genguard -n here  (data.a, data.b, data.c and 2 more; a new one)"
    )
    issuer = SERVICE | {"apiVersion": "cert-manager.io/v1", "kind": "Issuer"}
    assert path_of(issuer) == "/apis/cert-manager.io/v1/namespaces/here/issuers/genguard"


def rule(group: str, *resources: str):
    return {"apiGroups": [group], "apiVersions": ["v1"], "resources": list(resources)}


def with_rules(*rules: dict):
    hook, *others = MUTATE["webhooks"]
    return MUTATE | {"webhooks": [hook | {"rules": [*hook["rules"], *rules]}, *others]}


def test_rules_that_somebody_added_are_kept_but_for_wildcards_and_those_of_helm_s_values():
    mine = rule("example.com", "widgets", "widgets/status"), rule("", "configmaps")
    assert merged(MUTATE, with_rules(*mine)) == with_rules(*mine)
    for one in (rule("apps", "deployments"), rule("*", "widgets"), rule("example.com", "*/*")):
        assert merged(MUTATE, with_rules(one)) == MUTATE
    assert merged(MUTATE, None) == MUTATE
    labels = MUTATE["metadata"]["labels"] | {MANAGED_BY: "Helm"}
    of_helm = MUTATE | {"metadata": MUTATE["metadata"] | {"labels": labels}}
    assert merged(of_helm, with_rules(*mine)) == of_helm

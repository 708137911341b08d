"""What installing would do to an object, from what there is and what there would be."""

import pytest

from webhook.install.plan import Action, Step, compare
from webhook.manifest.documents import path_of

SERVICE = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"name": "genguard", "namespace": "here"},
    "spec": {"ports": [{"port": 443}]},
}


def live(**changes):
    return SERVICE | changes


@pytest.mark.parametrize(
    ("would", "fields", "because"),
    [
        ({}, (), "nothing differs"),
        ({"status": {"loadBalancer": {}}}, (), "status is the server's"),
        (
            {"metadata": SERVICE["metadata"] | {"resourceVersion": "2", "managedFields": [{}]}},
            (),
            "these change with every apply",
        ),
        ({"spec": {"ports": [{"port": 444}]}}, ("spec.ports[0].port",), "the deepest place"),
        ({"spec": {"ports": []}}, ("spec.ports",), "lists of two lengths differ as a whole"),
        ({"spec": {"ports": [{"port": 443}], "type": "X"}}, ("spec.type",), "what is added"),
        (
            {"metadata": SERVICE["metadata"] | {"labels": {"generation": "1"}}},
            ("metadata.labels",),
            "only metadata's own fields are the server's",
        ),
    ],
)
def test_an_object_is_updated_in_the_fields_that_would_differ(would, fields, because):
    step = compare(SERVICE, live(), live(**would))
    assert step.fields == fields, because
    assert step.action is (Action.UPDATE if fields else Action.UNCHANGED)


def test_what_is_not_there_is_created():
    assert compare(SERVICE, None, live()).action is Action.CREATE


def test_a_step_reads_as_kubectl_takes_it_and_tells_no_contents():
    fields = tuple(f"data.{name}" for name in "abcdef")
    step = Step(Action.UPDATE, SERVICE, fields, "a new one")
    assert str(step) == (
        "update    service/genguard -n here  (data.a, data.b, data.c, data.d and 2 more; a new one)"
    )


@pytest.mark.parametrize(
    ("version", "kind", "path"),
    [
        ("v1", "Namespace", "/api/v1/namespaces/genguard"),
        ("v1", "Service", "/api/v1/namespaces/here/services/genguard"),
        ("apps/v1", "Deployment", "/apis/apps/v1/namespaces/here/deployments/genguard"),
        (
            "cert-manager.io/v1",
            "Issuer",
            "/apis/cert-manager.io/v1/namespaces/here/issuers/genguard",
        ),
    ],
)
def test_every_kind_has_its_path(version, kind, path):
    assert path_of(SERVICE | {"apiVersion": version, "kind": kind}) == path

"""Which webhooks are called for a write in thought, who is only listed, and schemas of a kind."""

import dataclasses
import json

import pytest

from genguard.admission.matching import read_configurations
from genguard.objects.served import Served
from tests.cases_loader import Case, table
from tests.unit.detection.evaluating import CONDITIONS
from webhook.cluster import converging
from webhook.cluster.converging import Admission, DryRuns, read_statuses
from webhook.cluster.rest import RefusedError

NAME = "mmm/hook"
WIDGETS = Served("example.org", "v1", "widgets", "widget", "Widget", (), True, True, True)
MANIFEST = {"metadata": {"name": "one", "namespace": "shop", "labels": {"a": "b"}}}


def admission(**settings):
    rule = {
        "apiGroups": ["*"],
        "apiVersions": [settings.pop("version", "v1")],
        "resources": ["*"],
        "operations": ["CREATE"],
    }
    declared = {"sideEffects": "None", "admissionReviewVersions": ["v1"]}
    hook = {"name": "hook", "rules": [rule], **declared, **settings}
    kind = "MutatingWebhookConfiguration"
    documents = [{"kind": kind, "metadata": {"name": "mmm"}, "webhooks": [hook]}]
    registered = {one.name: one for one in read_configurations(documents)}
    return Admission(None, None, CONDITIONS, registered, {NAME: hook}, (), {"username": "me"})


def cluster(served=WIDGETS, *, labels=None, **settings):
    return DryRuns(admission(**settings), served, labels or {}, "me")


@table("converge/called.yaml", "settings", "called", "listed")
def test_a_webhook_is_called_or_listed_with_the_reason(case: Case) -> None:
    found = cluster(**case["settings"])
    assert found.matches(NAME, found.review("CREATE", MANIFEST, None)) == case["called"]
    assert case["listed"] in found.left_out.get(NAME, ""), case.because
    assert bool(found.left_out) == bool(case["listed"]), case.because


@pytest.mark.parametrize("name", ["x#", "x?dryRun=", "../../x", "a/b", "ä"])
def test_nothing_of_a_name_becomes_part_of_the_query(name):
    path = cluster().path({"metadata": {"name": name, "namespace": "n#"}})
    assert path.startswith("/apis/example.org/v1/namespaces/n%23/widgets/")
    assert not {"#", "?"} & set(path)
    assert path.count("/") == 7


@pytest.mark.parametrize("labels", [{"version": 1.0}, "none", ["a"]])
def test_labels_that_are_not_valid_match_nothing(labels):
    found = cluster()
    manifest = {"metadata": {"name": "one", "namespace": "shop", "labels": labels}}
    assert not found.matches(NAME, found.review("CREATE", manifest, None))


def test_a_namespace_is_matched_by_its_own_labels():
    spaces = dataclasses.replace(WIDGETS, group="", resource="namespaces", namespaced=False)
    found = cluster(spaces, namespaceSelector={"matchLabels": {"team": "a"}})
    for labels, is_called in (({"team": "a"}, True), ({"team": "b"}, False), ({}, False)):
        manifest = {"metadata": {"name": "shop", "labels": labels}}
        review = found.review("CREATE", manifest, None)
        assert review["request"]["namespace"] == "shop"
        assert found.matches(NAME, review) == is_called


class Published:
    """What an API server answers one after the other, the last again and again; None is 404."""

    def __init__(self, *answers: bytes | None) -> None:
        self._answers = list(answers)

    async def read(self, path):
        assert path == "/openapi/v3/apis/example.org/v1"
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if answer is None:
            raise RefusedError(404, "not found")
        return answer


def document(kind):
    observed = {"properties": {"observedGeneration": {"type": "integer", "format": "int64"}}}
    which = {"group": "example.org", "version": "v1", "kind": kind}
    schema = {
        "x-kubernetes-group-version-kind": [which],
        "properties": {"status": {"type": "object", **observed}},
    }
    return json.dumps({"components": {"schemas": {kind: schema}}}).encode()


async def test_the_schema_of_a_kind_that_is_new_is_waited_for():
    rest = Published(None, b"", document("Gadget"), document("Widget"))
    statuses = await read_statuses(rest, WIDGETS, 3)
    assert {"observedGeneration": 3}.items() <= statuses[0].items()


async def test_where_no_schema_is_published_it_is_told_and_one_without_the_kind_has_no_status(
    monkeypatch,
):
    monkeypatch.setattr(converging, "_PUBLISHED_SECONDS", 0.0)
    with pytest.raises(RefusedError, match=r"no schema of \S+ is published at"):
        await read_statuses(Published(None), WIDGETS, 3)
    assert await read_statuses(Published(document("Gadget")), WIDGETS, 3) == ({}, {})

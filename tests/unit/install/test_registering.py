"""Registrations on their way to the whole cluster: never wider than the trial namespace before."""

import manifests
from webhook.install.registering import (
    MANAGED_BY,
    check,
    is_limited,
    limited,
    merged,
    release_of,
    trial_name,
)
from webhook.manifest.rendering import Choices, is_registration, render

PAIR = {"tls.crt": b"leaf", "tls.key": b"key", "ca.crt": b"authority"}
INTENT, MUTATE, OUTCOME = (
    one for one in render(Choices(), manifests.read, PAIR) if is_registration(one)
)
RUN = "0a1b2c3d"


def rule(group: str, *resources: str):
    return {"apiGroups": [group], "apiVersions": ["v1"], "resources": list(resources)}


def with_rules(*rules: dict):
    (hook,) = MUTATE["webhooks"]
    return MUTATE | {"webhooks": [hook | {"rules": [*hook["rules"], *rules]}]}


def rules_of(document):
    return document["webhooks"][0]["rules"]


def test_limited_is_the_same_for_one_namespace_and_leaves_the_original_alone():
    found = limited(MUTATE, RUN)
    (hook,) = found["webhooks"]
    assert hook.pop("namespaceSelector") == {
        "matchLabels": {"kubernetes.io/metadata.name": trial_name(RUN)}
    }
    (original,) = MUTATE["webhooks"]
    assert hook == {key: value for key, value in original.items() if key != "namespaceSelector"}
    assert is_limited(limited(MUTATE, RUN))
    assert not is_limited(MUTATE)


def test_the_check_fails_but_for_a_marked_object_of_one_namespace_alone():
    (hook,) = check(OUTCOME, RUN)["webhooks"]
    assert hook["failurePolicy"] == "Fail"
    assert hook["objectSelector"] == {"matchLabels": {"genguard.io/install": RUN}}
    assert hook["namespaceSelector"] == limited(OUTCOME, RUN)["webhooks"][0]["namespaceSelector"]
    assert hook["clientConfig"] == OUTCOME["webhooks"][0]["clientConfig"]
    assert [one["resources"] for one in hook["rules"]] == [["podtemplates"]]


def test_rules_that_somebody_added_are_kept():
    widgets = rule("example.com", "widgets", "widgets/status")
    config_maps = rule("", "configmaps")
    assert rules_of(merged(MUTATE, with_rules(widgets, config_maps)))[-2:] == [
        widgets,
        config_maps,
    ]


def test_rules_that_helm_s_values_do_not_name_any_more_go():
    metadata = MUTATE["metadata"]
    labels = metadata["labels"] | {MANAGED_BY: "Helm"}
    of_helm = MUTATE | {"metadata": metadata | {"labels": labels}}
    assert merged(of_helm, with_rules(rule("example.com", "widgets"))) == of_helm


def test_rules_for_what_is_watched_anyway_and_wildcards_go():
    for one in (rule("apps", "deployments"), rule("*", "widgets"), rule("example.com", "*/*")):
        assert merged(MUTATE, with_rules(one)) == MUTATE
    assert merged(MUTATE, None) == MUTATE


def test_a_release_is_known_by_the_label_and_the_annotation_of_helm():
    label = {MANAGED_BY: "Helm"}
    annotations = {"meta.helm.sh/release-name": "g", "meta.helm.sh/release-namespace": "n"}
    assert release_of({"metadata": {"labels": label, "annotations": annotations}}) == "g -n n"
    assert release_of({"metadata": {"labels": label}}) == "", "rendered by Argo CD"
    assert release_of({"metadata": {"annotations": annotations}}) == ""
    assert release_of({"metadata": {}}) == ""

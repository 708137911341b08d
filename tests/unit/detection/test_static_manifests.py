"""Which manifests of static webhooks and policies are taken: those that the API server takes."""

from copy import deepcopy
from typing import Any

import pytest

from genguard.detection.static_manifests import (
    BadManifestError,
    Identity,
    check_manifest,
    read_static,
)
from tests.unit.detection.policies import binding, policy
from tests.unit.detection.test_suspects import hook

VERSION = {"apiVersion": "admissionregistration.k8s.io/v1"}
HOOK = {**hook("pins.static.k8s.io"), **VERSION}
POLICY = policy("pins.static.k8s.io")
BINDING = binding("pins.static.k8s.io") | {"metadata": {"name": "here.static.k8s.io"}}


def changed(manifest: dict[str, Any], *path: Any, to: Any) -> dict[str, Any]:
    """A copy in which the field at a path is another one; None removes it."""
    copied = deepcopy(manifest)
    inner: Any = copied
    for key in path[:-1]:
        inner = inner[key]
    if to is None:
        del inner[path[-1]]
    else:
        inner[path[-1]] = to
    return copied


@pytest.mark.parametrize(
    ("manifest", "kind", "name", "bound"),
    [
        (HOOK, "MutatingWebhookConfiguration", "pins.static.k8s.io", ""),
        (POLICY, "MutatingAdmissionPolicy", "pins.static.k8s.io", ""),
        (BINDING, "MutatingAdmissionPolicyBinding", "here.static.k8s.io", "pins.static.k8s.io"),
        (
            {**HOOK, "kind": "ValidatingWebhookConfiguration"},
            "ValidatingWebhookConfiguration", "pins.static.k8s.io", "",
        ),
        (
            {**POLICY, "kind": "ValidatingAdmissionPolicy"},
            "ValidatingAdmissionPolicy", "pins.static.k8s.io", "",
        ),
        (
            changed(HOOK, "webhooks", to=None),
            "MutatingWebhookConfiguration", "pins.static.k8s.io", "",
        ),
    ],
)  # fmt: skip
def test_a_manifest_that_the_api_server_loads_is_taken(manifest, kind, name, bound):
    assert check_manifest(manifest) == Identity(kind, name, bound)


@pytest.mark.parametrize(
    ("manifest", "told"),
    [
        ({**HOOK, "kind": "ConfigMap"}, "staticManifestsDir"),
        ({**HOOK, "kind": ["x"]}, "staticManifestsDir"),
        ({**HOOK, "apiVersion": "admissionregistration.k8s.io/v1beta1"}, "staticManifestsDir"),
        (changed(HOOK, "metadata", to=None), "`metadata`"),
        (changed(HOOK, "metadata", "name", to="pins"), "--webhooks"),
        (changed(HOOK, "metadata", "name", to=".static.k8s.io"), "--webhooks"),
        (changed(HOOK, "webhooks", to="all"), "$.webhooks"),
        (changed(HOOK, "webhooks", 0, "rules", to="all"), "$.webhooks[0].rules"),
        (changed(HOOK, "webhooks", 0, "rules", 0, "resources", to=[1]), "resources"),
        (
            changed(HOOK, "webhooks", 0, "clientConfig", to={"service": {"name": "a"}}),
            "webhooks[0].clientConfig.url",
        ),
        (changed(HOOK, "webhooks", 0, "clientConfig", "url", to=""), "called by URL"),
        (
            {**changed(HOOK, "webhooks", 0, "clientConfig", "url", to=7)},
            "$.webhooks[0].clientConfig.url",
        ),
        (changed(POLICY, "spec", to=None), "`spec`"),
        (changed(POLICY, "spec", "paramKind", to={}), "remove paramKind"),
        (changed(POLICY, "spec", "mutations", to=[{"jsonPatch": "x"}]), "jsonPatch"),
        (changed(BINDING, "spec", "policyName", to=None), "`policyName`"),
        (changed(BINDING, "spec", "paramRef", to={"name": "canary"}), "remove paramRef"),
        (
            {**changed(POLICY, "spec", "paramKind", to={}), "kind": "ValidatingAdmissionPolicy"},
            "remove paramKind",
        ),
        (
            {
                **changed(BINDING, "spec", "paramRef", to={"name": "canary"}),
                "kind": "ValidatingAdmissionPolicyBinding",
            },
            "remove paramRef",
        ),
    ],
)
def test_a_manifest_that_the_api_server_refuses_is_refused_with_its_field(manifest, told):
    with pytest.raises(BadManifestError) as refused:
        check_manifest(manifest)
    assert told in str(refused.value)
    assert "canary" not in str(refused.value)


def test_only_what_mutates_is_a_suspect():
    manifests = [
        HOOK, POLICY, BINDING, {**HOOK, "kind": "ValidatingWebhookConfiguration"},
        {**POLICY, "kind": "ValidatingAdmissionPolicy"},
    ]  # fmt: skip
    found = read_static(manifests)
    assert [one.name for one in found.webhooks] == ["pins.static.k8s.io/h.example.org"]
    assert [one.name for one in found.policies] == ["pins.static.k8s.io"]

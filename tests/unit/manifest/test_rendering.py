"""What somebody chooses, and where it stands in the documents."""

import base64

import pytest

import manifests
from webhook.manifest.rendering import (
    PHASES,
    SECRET,
    Choices,
    Outside,
    as_yaml,
    is_registration,
    phase_of,
    render,
)

PAIR = {"tls.crt": b"leaf", "tls.key": b"key", "ca.crt": b"authority"}
OUTSIDE = Outside("https://10.0.0.1:8443", b"theirs")


def rendered(**choices):
    return render(Choices(**choices), manifests.read, PAIR)


def webhooks(documents):
    return {
        phase_of(hook): hook
        for one in documents
        if is_registration(one)
        for hook in one["webhooks"]
    }


def container(documents):
    (deployment,) = (one for one in documents if one["kind"] == "Deployment")
    (found,) = deployment["spec"]["template"]["spec"]["containers"]
    return found


def test_the_pair_is_in_the_secret_and_its_authority_in_every_registration():
    documents = rendered()
    (secret,) = (one for one in documents if one["kind"] == "Secret")
    assert secret["metadata"]["name"] == SECRET
    assert {name: base64.b64decode(value) for name, value in secret["data"].items()} == PAIR
    bundles = {hook["clientConfig"]["caBundle"] for hook in webhooks(documents).values()}
    assert bundles == {base64.b64encode(b"authority").decode()}
    assert tuple(webhooks(documents)) == PHASES


def test_audit_only_and_image_are_the_container_s():
    assert "--audit-only" not in container(rendered())["args"]
    found = container(rendered(audit_only=True, image="registry.example.org/genguard@sha256:0"))
    assert found["args"][-1] == "--audit-only"
    assert found["image"] == "registry.example.org/genguard@sha256:0"


def test_another_namespace_is_named_wherever_the_first_was():
    text = as_yaml(rendered(namespace="guards"))
    assert "genguard-system" not in text
    assert "system:serviceaccount:guards:genguard" in text
    assert text.count("guards") == as_yaml(rendered()).count("genguard-system")


def test_a_server_outside_needs_registrations_alone():
    documents = rendered(outside=OUTSIDE)
    assert all(is_registration(one) for one in documents)
    for phase, hook in webhooks(documents).items():
        assert hook["clientConfig"] == {
            "url": f"https://10.0.0.1:8443/{phase}",
            "caBundle": base64.b64encode(b"theirs").decode(),
        }


@pytest.mark.parametrize("audit_only", [True, False])
def test_with_cert_manager_somebody_else_makes_secret_and_bundle(audit_only):
    documents = rendered(cert_manager=True, audit_only=audit_only)
    assert "Secret" not in {one["kind"] for one in documents}
    assert ("--audit-only" in container(documents)["args"]) is audit_only
    certificates = {
        f"{one['metadata']['namespace']}/{one['metadata']['name']}": one["spec"]["secretName"]
        for one in documents
        if one["kind"] == "Certificate"
    }
    for one in documents:
        if is_registration(one):
            source = one["metadata"]["annotations"]["cert-manager.io/inject-ca-from"]
            assert certificates[source] == SECRET
            assert all("caBundle" not in hook["clientConfig"] for hook in one["webhooks"])

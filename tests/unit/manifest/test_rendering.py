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
    store_of,
)

NAME_LABEL = "kubernetes.io/metadata.name"
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


def test_the_pair_is_in_the_secret_and_its_authority_in_every_registration():
    documents = rendered()
    (secret,) = (one for one in documents if one["kind"] == "Secret")
    assert secret["metadata"]["name"] == SECRET
    assert {name: base64.b64decode(value) for name, value in secret["data"].items()} == PAIR
    bundles = {hook["clientConfig"]["caBundle"] for hook in webhooks(documents).values()}
    assert bundles == {base64.b64encode(b"authority").decode()}
    assert tuple(webhooks(documents)) == PHASES


def test_another_namespace_is_named_wherever_the_first_was():
    text = as_yaml(rendered(namespace="guards"))
    assert "genguard-system" not in text
    assert "system:serviceaccount:guards:genguard" in text
    assert text.count("guards") == as_yaml(rendered()).count("genguard-system")


_SAID = "genguard-system"  # the namespace in the files, and part of what somebody may give
_ELSEWHERE = f"db.{_SAID}.svc"


@pytest.mark.parametrize(
    ("choices", "kept"),
    [
        ({"image": f"r.example.org/{_SAID}/genguard:1"}, f"r.example.org/{_SAID}/genguard:1"),
        ({"ha": True, "store_image": f"r.example.org/{_SAID}:8"}, f"r.example.org/{_SAID}:8"),
        ({"alertmanagers": (f"http://a.{_SAID}.svc",)}, f"--alertmanager=http://a.{_SAID}.svc"),
        ({"alertmanagers": (f"http://a.{_SAID}.svc",)}, f"{NAME_LABEL}: {_SAID}"),
        (
            {"ha": True, "store": f"valkey://{_ELSEWHERE}"},
            f"--store=valkey://{_ELSEWHERE}",
        ),
        (
            {"ha": True, "store": f"valkey://{_ELSEWHERE}"},
            f"{NAME_LABEL}: {_SAID}",
        ),
        ({"outside": Outside(f"https://{_ELSEWHERE}", b"theirs")}, f"url: https://{_ELSEWHERE}/"),
    ],
    ids=[
        "image", "store-image", "alertmanager", "the way to an alertmanager", "store",
        "the way to a store", "url",
    ],
)  # fmt: skip
def test_another_namespace_changes_nothing_that_was_given(choices, kept):
    text = as_yaml(rendered(namespace="ops", **choices))
    assert kept in text


def test_a_server_outside_needs_registrations_alone():
    documents = rendered(outside=OUTSIDE)
    assert all(is_registration(one) for one in documents)
    for phase, hook in webhooks(documents).items():
        assert hook["clientConfig"] == {
            "url": f"https://10.0.0.1:8443/{phase}",
            "caBundle": base64.b64encode(b"theirs").decode(),
        }


def of_kind(documents, kind):
    (found,) = (one for one in documents if one["kind"] == kind)
    return found


def test_replicas_with_a_store_have_one_of_their_own():
    found = render(Choices(ha=True, cert_manager=True, follow=False), manifests.read, {})
    assert of_kind(found, "Deployment")["spec"]["replicas"] == 3
    assert of_kind(found, "StatefulSet")["metadata"]["name"] == "genguard-valkey"


def test_a_store_of_somebody_s_own_takes_the_place_of_the_valkey():
    found = rendered(ha=True, store="valkey://db.shop.svc/0")
    assert "genguard-valkey" not in as_yaml(found)


@pytest.mark.parametrize(
    ("host", "to"),
    [
        ("db.shop.svc", [{"namespaceSelector": {"matchLabels": {NAME_LABEL: "shop"}}}]),
        (
            "db.shop.svc.cluster.local",
            [{"namespaceSelector": {"matchLabels": {NAME_LABEL: "shop"}}}],
        ),
        ("10.0.0.7", [{"ipBlock": {"cidr": "10.0.0.7/32"}}]),
        ("[fd00::7]", [{"ipBlock": {"cidr": "fd00::7/128"}}]),
        ("db.example.org", None),
    ],
)
def test_the_way_to_another_store_is_open_and_no_secret_is_needed(host, to):
    store = f"valkey://{host}:7000/0"
    found = rendered(ha=True, store=store)
    assert store_of(of_kind(found, "Deployment")) == store
    way = of_kind(found, "NetworkPolicy")["spec"]["egress"][-1]
    assert way.pop("ports") == [{"port": 7000, "protocol": "TCP"}]
    assert way.get("to") == to
    pod = of_kind(found, "Deployment")["spec"]["template"]["spec"]
    (volume,) = (one for one in pod["volumes"] if one["name"] == "store")
    assert volume["secret"]["optional"]


@pytest.mark.parametrize(
    ("arguments", "address"),
    [
        ([], ""),
        (["--store=memory"], ""),
        (["--store=sqlite:/var/lib/genguard/state.db"], ""),
        (["--audit-only", "--store=redis://db/0"], "redis://db/0"),
    ],
)
def test_a_store_is_shared_only_where_several_pods_reach_it(arguments, address):
    pod = {"containers": [{"name": "genguard", "args": arguments}]}
    assert store_of({"spec": {"template": {"spec": pod}}}) == address


def test_there_is_room_for_as_many_replicas_as_are_asked_for():
    found = rendered(replicas=20)
    assert of_kind(found, "Deployment")["spec"]["replicas"] == 20
    assert of_kind(found, "ResourceQuota")["spec"]["hard"]["pods"] == "22"
    assert of_kind(rendered(replicas=1), "ResourceQuota") == of_kind(rendered(), "ResourceQuota")

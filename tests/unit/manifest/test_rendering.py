"""What somebody chooses, and where it stands in the documents."""

import base64

import manifests
from tests.cases_loader import table
from webhook.cluster.installation import choices_of
from webhook.manifest.documents import arguments_of
from webhook.manifest.rendering import (
    SECRET,
    WATCH_ROLE,
    Choices,
    Outside,
    as_yaml,
    is_registration,
    phase_of,
    render,
    store_of,
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


def test_the_pair_is_in_the_secret_and_its_authority_in_every_registration():
    documents = rendered()
    (secret,) = (one for one in documents if one["kind"] == "Secret")
    assert secret["metadata"]["name"] == SECRET
    assert {name: base64.b64decode(value) for name, value in secret["data"].items()} == PAIR
    bundles = {hook["clientConfig"]["caBundle"] for hook in webhooks(documents).values()}
    assert bundles == {base64.b64encode(b"authority").decode()}
    assert tuple(webhooks(documents)) == ("intent", "mutate", "repair", "outcome", "changed")


def test_another_namespace_is_named_wherever_the_first_was():
    text = as_yaml(rendered(namespace="guards"))
    assert "genguard-system" not in text
    assert "system:serviceaccount:guards:genguard" in text
    assert text.count("guards") == as_yaml(rendered()).count("genguard-system")


@table("manifests/given.yaml", "choices", "outside", "kept")
def test_another_namespace_changes_nothing_that_was_given(case):
    choices = dict(case["choices"])
    if "outside" in case.values:
        choices["outside"] = Outside(case["outside"], b"theirs")
    assert case["kept"] in as_yaml(rendered(namespace="ops", **choices)), case.because


def test_a_server_outside_needs_registrations_alone():
    documents = rendered(outside=OUTSIDE)
    assert all(is_registration(one) for one in documents)
    for name, hook in webhooks(documents).items():
        path = "outcome" if name == "changed" else name
        assert hook["clientConfig"] == {
            "url": f"https://10.0.0.1:8443/{path}",
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


@table("manifests/ways.yaml", "host", "to")
def test_the_way_to_another_store_is_open_and_no_secret_is_needed(case):
    store = f"valkey://{case['host']}:7000/0"
    found = rendered(ha=True, store=store)
    assert store_of(of_kind(found, "Deployment")) == store
    way = of_kind(found, "NetworkPolicy")["spec"]["egress"][-1]
    assert way.pop("ports") == [{"port": 7000, "protocol": "TCP"}]
    assert way.get("to") == case["to"], case.because
    pod = of_kind(found, "Deployment")["spec"]["template"]["spec"]
    (volume,) = (one for one in pod["volumes"] if one["name"] == "store")
    assert volume["secret"]["optional"]


@table("manifests/stores.yaml", "arguments", "address")
def test_a_store_is_shared_only_where_several_pods_reach_it(case):
    pod = {"containers": [{"name": "genguard", "args": case["arguments"]}]}
    assert store_of({"spec": {"template": {"spec": pod}}}) == case["address"], case.because


def test_there_is_room_for_as_many_replicas_as_are_asked_for():
    found = rendered(replicas=20)
    assert of_kind(found, "Deployment")["spec"]["replicas"] == 20
    assert of_kind(found, "ResourceQuota")["spec"]["hard"]["pods"] == "22"
    assert of_kind(rendered(replicas=1), "ResourceQuota") == of_kind(rendered(), "ResourceQuota")


def test_what_is_watched_may_be_read_and_no_wildcard_can_mean_a_secret():
    documents = rendered(watch_kinds=("services", "ingresses.x.io"), watch_groups=("a.org", ""))
    role = next(one for one in documents if one["metadata"]["name"] == WATCH_ROLE)
    rules = [(*one["apiGroups"], *one["resources"]) for one in role["rules"]]
    assert rules == [("", "nodes"), ("a.org", "*"), ("", "services"), ("x.io", "ingresses")]
    server = of_kind(documents, "Deployment")
    assert "--watch-fights=services,ingresses.x.io" in arguments_of(server)


def test_the_server_is_told_what_the_cluster_is_called():
    for name in ("", "kind-dev"):
        server = of_kind(rendered(cluster_name=name), "Deployment")
        assert choices_of(server, "genguard-system").cluster_name == name


def test_kube_system_is_registered_for_by_a_flag_alone():
    for chosen in (False, True):
        for webhook in webhooks(rendered(include_kube_system=chosen)).values():
            (left_out,) = webhook["namespaceSelector"]["matchExpressions"]
            assert ("kube-system" in left_out["values"]) is not chosen

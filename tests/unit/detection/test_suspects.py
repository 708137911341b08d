"""Which webhooks can have acted, and which of several is named first."""

import json

import pytest

from genguard.admission.decode import decode_review
from genguard.detection.evidence import ResourceKind, share
from genguard.detection.finding import Confidence
from genguard.detection.matching import Matched, read_policies
from genguard.detection.suspects import Suspects, read_configurations
from tests.reviews import make_review
from tests.unit.detection.evaluating import CONDITIONS
from tests.unit.detection.policies import binding, policy, rule

STATUS = Matched("apps", "v1", "deployments", "status", "UPDATE", "shop", "web", {"a": "b"}, {})
HERE = ResourceKind("apps", "deployments", "status")


def hook(name, resources=("deployments/status",), path="/", **settings):
    covers = {"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": resources}
    client = {"url": f"https://127.0.0.1:1{path}"}
    one = {"name": "h.example.org", "clientConfig": client, "rules": [covers], **settings}
    return {"kind": "MutatingWebhookConfiguration", "metadata": {"name": name}, "webhooks": [one]}


OWN = [hook("0--genguard-intent", path="/intent"), hook("zzzzzz-genguard-mutate", path="/mutate")]


def suspects(*hooks: dict):
    return Suspects(read_configurations([*OWN, *hooks]), conditions=CONDITIONS)


def names(found):
    return [name.partition("/")[0] for name in found]


def test_genguards_own_and_what_sorts_outside_of_them_are_never_suspects():
    found = suspects(hook("0"), hook("mmm"), hook("zzzzzzz")).called(STATUS).first
    assert names(found) == ["mmm"]


def test_in_round_one_only_those_who_ask_for_it_are_called():
    both = suspects(hook("aaa"), hook("bbb", reinvocationPolicy="IfNeeded"))
    assert names(both.called(STATUS).first) == ["aaa", "bbb"]
    assert names(both.called(STATUS).again) == ["bbb"]


def test_one_candidate_is_certain_and_of_equals_each_is_possible():
    both = suspects(hook("aaa"), hook("bbb"))
    assert list(both.accused(["aaa/h"], share([["aaa/h"]]), HERE)) == [
        ("aaa/h", Confidence.CERTAIN)
    ]
    pair = both.called(STATUS).first
    assert [sure for _, sure in both.accused(pair, share([pair]), HERE)] == [
        Confidence.POSSIBLE
    ] * 2


def test_who_stood_alone_in_another_finding_is_named_first():
    both = suspects(hook("aaa"), hook("bbb", ("*/status",)))
    pair = both.called(STATUS).first
    (first, sure), _ = both.accused(pair, share([pair, [pair[1]]]), HERE)
    assert (names([first]), sure) == (["bbb"], Confidence.LIKELY)


def test_who_left_this_place_alone_is_less_likely_than_who_was_seldom_there():
    both = suspects(hook("aaa"), hook("bbb"))
    pair = both.called(STATUS).first
    for _ in range(2):
        both.record_unchanged(pair[:1], HERE)
    (first, sure), _ = both.accused(pair, share([pair]), HERE)
    assert (names([first]), sure) == (["bbb"], Confidence.LIKELY)


def test_what_is_no_configuration_and_who_only_observes_is_passed_over():
    observer = hook("mmm")
    observer["metadata"]["labels"] = {"genguard.io/trace": "1"}
    assert read_configurations([None, "text", {"kind": "Pod"}, observer]) == ()


@pytest.mark.parametrize(
    ("name", "client", "phase"),
    [
        ("genguard-intent", {"service": {"path": "/intent"}}, "/intent"),
        ("genguard-mutate", {"url": "https://127.0.0.1:1/mutate?x=1"}, "/mutate"),
        ("genguard-outcome", {"service": {"path": "/outcome"}}, "/outcome"),
        ("genguard-other", {"service": {"path": "/other"}}, ""),
        ("genguard-none", {}, ""),
        ("mmm", {"service": {"path": "/mutate"}}, ""),
    ],
)
def test_genguards_own_are_known_by_name_and_path(name, client, phase):
    one = hook(name, clientConfig=client)
    (found,) = read_configurations([one])
    assert found.phase == phase


def test_a_webhook_may_be_genguards_by_its_own_name():
    one = hook("mmm", path="/mutate")
    one["webhooks"][0]["name"] = "mutate.genguard.io"
    (found,) = read_configurations([one])
    assert found.phase == "/mutate"


@pytest.mark.parametrize(
    ("labels", "path", "phase"),
    [
        ({"app.kubernetes.io/name": "genguard"}, "/mutate", "/mutate"),
        ({"app.kubernetes.io/name": "genguard"}, "/behind/a/proxy", "/"),
        ({"app.kubernetes.io/name": "other"}, "/mutate", ""),
        ([], "/mutate", ""),
    ],
)
def test_another_genguard_is_known_by_its_label_and_never_a_suspect(labels, path, phase):
    one = hook("team-b-mutate", path=path)
    one["metadata"]["labels"] = labels
    (found,) = read_configurations([one])
    assert found.phase == phase
    assert (found in suspects(one).others) is (phase == "")


def test_who_is_called_for_one_name_alone_is_told_by_the_name():
    one = hook("mmm", ("*",))
    one["webhooks"][0]["rules"][0]["resourceNames"] = ["web"]
    found = suspects(one)
    for name, called in (("web", ["mmm"]), ("other", []), ("web", ["mmm"])):
        asked = make_review("UPDATE", "deployments", {}, {}, name=name)
        request = decode_review(json.dumps(asked).encode())
        assert names(found.called_in(request).first) == called


def test_conditions_are_not_asked_in_another_version_of_the_object():
    never = hook("mmm", matchConditions=[{"name": "c", "expression": "false"}])
    never["webhooks"][0]["rules"][0]["apiVersions"] = ["v1beta1"]
    found = suspects(never)
    found.changed(HERE)
    asked = make_review("UPDATE", "deployments", {}, {}, subresource="status")
    assert found.unmet_in(decode_review(json.dumps(asked).encode())) == ()


def test_of_many_policies_so_many_are_remembered_of_a_write():
    anywhere = {"rules": [rule("*/*", "*")]}
    wanted = [f"p{number:02}" for number in range(12)]
    documents = [one for name in wanted for one in (policy(name, **anywhere), binding(name))]
    elsewhere = [policy("a", rules=[rule("pods")]), binding("a")]
    found = Suspects((), read_policies([*elsewhere, *documents]), conditions=CONDITIONS)
    asked = make_review("UPDATE", "deployments", {}, {})
    acted = found.policies_in(decode_review(json.dumps(asked).encode()))
    assert [one.name for one in acted] == wanted[:8]


def test_who_sorts_as_genguard_itself_is_not_between_its_two():
    own = {"kind": "MutatingWebhookConfiguration", "metadata": {"name": OWN[0]["metadata"]["name"]}}
    beside = {**own, "webhooks": [{**hook("x")["webhooks"][0], "name": "beside.example.org"}]}
    last = {**beside, "metadata": {"name": OWN[1]["metadata"]["name"]}}
    assert suspects(beside, last).others == ()


def test_what_an_api_server_would_not_take_is_read_as_far_as_it_goes():
    """A file may hold anything: no name, no expression."""
    (found,) = read_configurations(
        [{"kind": "MutatingWebhookConfiguration", "webhooks": [{"matchConditions": [{}]}]}]
    )
    assert (found.name, found.phase, found.conditions, found.rules) == ("/", "", ("",), ())

"""Which webhooks can have acted, and which of several is named first."""

import json

import pytest
from msgspec.structs import replace

from tests.reviews import make_review
from tests.unit.detection.policies import binding, policy
from webhook.admission.decode import decode_review
from webhook.detection import evidence
from webhook.detection import suspects as suspects_module
from webhook.detection.evidence import Place, share
from webhook.detection.finding import Confidence
from webhook.detection.matching import Matched
from webhook.detection.policies import read_policies
from webhook.detection.suspects import Suspects, read_configurations

STATUS = Matched("apps", "v1", "deployments", "status", "UPDATE", "shop", "web", {"a": "b"}, {})
HERE = Place("apps", "deployments", "status")


def hook(name, resources=("deployments/status",), path="/", **settings):
    rule = {"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": resources}
    client = {"url": f"https://127.0.0.1:1{path}"}
    one = {"name": "h.example.org", "clientConfig": client, "rules": [rule], **settings}
    return {"kind": "MutatingWebhookConfiguration", "metadata": {"name": name}, "webhooks": [one]}


OWN = [hook("0--genguard-intent", path="/intent"), hook("zzzzzz-genguard-mutate", path="/mutate")]


def suspects(*hooks: dict):
    return Suspects(read_configurations([*OWN, *hooks]))


def names(found):
    return [name.partition("/")[0] for name in found]


@pytest.mark.parametrize(
    ("settings", "is_called"),
    [
        ({}, True),
        ({"resources": ("deployments",)}, False),
        ({"resources": ("*",)}, False),
        ({"resources": ("*/*",)}, True),
        ({"resources": ("*/status",)}, True),
        ({"resources": ("deployments/*",)}, True),
        ({"objectSelector": {"matchLabels": {"a": "b"}}}, True),
        ({"objectSelector": {"matchLabels": {"a": "c"}}}, False),
        ({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "shop"}}}, True),
        ({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "bank"}}}, False),
        ({"namespaceSelector": {"matchLabels": {"team": "red"}}}, True),
        ({"matchConditions": [{"name": "c", "expression": "false"}]}, True),
    ],
)
def test_a_webhook_is_a_candidate_where_the_server_may_call_it(settings, is_called):
    found = suspects(hook("mmm", **settings)).called(STATUS).first
    assert names(found) == ["mmm"] * is_called


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


def test_who_left_other_writes_alone_is_less_likely():
    both = suspects(hook("aaa", ("*/status",)), hook("bbb"))
    for _ in range(3):
        elsewhere = HERE._replace(resource="replicasets")
        both.acquit(both.called(replace(STATUS, resource="replicasets")).first, elsewhere)
    pair = both.called(STATUS).first
    (first, sure), (_, other) = both.accused(pair, share([pair]), HERE)
    assert (names([first]), sure, other) == (["bbb"], Confidence.LIKELY, Confidence.POSSIBLE)


def test_who_stood_alone_in_another_finding_is_named_first():
    both = suspects(hook("aaa"), hook("bbb", ("*/status",)))
    pair = both.called(STATUS).first
    (first, sure), _ = both.accused(pair, share([pair, [pair[1]]]), HERE)
    assert (names([first]), sure) == (["bbb"], Confidence.LIKELY)


def test_who_left_this_place_alone_is_less_likely_than_who_was_seldom_there():
    both = suspects(hook("aaa"), hook("bbb"))
    pair = both.called(STATUS).first
    for _ in range(2):
        both.acquit(pair[:1], HERE)
    (first, sure), _ = both.accused(pair, share([pair]), HERE)
    assert (names([first]), sure) == (["bbb"], Confidence.LIKELY)


def test_what_speaks_for_webhooks_is_remembered_up_to_a_bound(monkeypatch):
    monkeypatch.setattr(evidence, "MOST_PLACES", 1)
    both = suspects(hook("aaa"), hook("bbb"))
    pair = both.called(STATUS).first
    for _ in range(9):
        both.acquit(pair, HERE)  # of the second nothing is counted any more
    (first, sure), _ = both.accused(pair, share([pair]), HERE)
    assert (names([first]), sure) == (["bbb"], Confidence.LIKELY)


def test_what_is_no_configuration_and_who_only_observes_is_passed_over():
    observer = hook("mmm")
    observer["metadata"]["labels"] = {"genguard.io/trace": "1"}
    assert read_configurations([None, "text", {"kind": "Pod"}, observer]) == ()


def test_registrations_and_policies_of_now_are_told_by_name():
    found = suspects(hook("mmm"))
    assert [one.name for one in found.others] == ["mmm/h.example.org"]
    found.learn_policies(read_policies([policy("b"), binding("b"), policy("a"), binding("a")]))
    assert [one.name for one in found.policies] == ["a", "b"]


def test_who_is_called_is_remembered_for_so_many_sorts_of_writes(monkeypatch):
    monkeypatch.setattr(suspects_module, "_MOST_CALLED", 1)
    found = suspects(hook("mmm", ("*",)))
    for resource in ("pods", "deployments", "pods"):
        request = decode_review(json.dumps(make_review("UPDATE", resource, {}, {})).encode())
        assert names(found.called_in(request).first) == ["mmm"]


def test_places_where_writes_are_changed_are_remembered_up_to_a_bound(monkeypatch):
    monkeypatch.setattr(suspects_module, "MOST_PLACES", 1)
    never = hook("mmm", matchConditions=[{"name": "c", "expression": "false"}])
    found = suspects(never)
    found.changed(Place("", "pods", "status"))
    found.changed(HERE)
    asked = make_review("UPDATE", "deployments", {}, {}, subresource="status")
    assert found.unmet_in(decode_review(json.dumps(asked).encode())) == ()

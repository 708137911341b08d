"""Which webhooks can have acted, and which of several is named first."""

import pytest
from msgspec.structs import replace

from webhook.detection.evidence import Place, share
from webhook.detection.finding import Confidence
from webhook.detection.matching import Matched
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

"""The requester, or a webhook in a file of the API server, which no API lists."""

from typing import Any

import pytest
from msgspec.structs import replace

from genguard.detection.detection import Detection
from genguard.detection.finding import Finding
from genguard.detection.policies import read_policies
from genguard.detection.static_manifests import read_static
from genguard.detection.suspects import Suspects, read_configurations
from tests.unit.detection.builders import INTENT, MUTATE, OUTCOME, feed, reviewed, spec, update
from tests.unit.detection.evaluating import CONDITIONS
from tests.unit.detection.policies import apply, binding, policy, rule
from tests.unit.detection.test_suspects import OWN, STATUS, hook

NAME = "pins.static.k8s.io"
FULL_NAME = f"{NAME}/h.example.org"
FOR_GITOPS = {"matchConditions": [{"expression": "request.userInfo.username == 'gitops'"}]}
AUTOSCALER = ("user", "autoscaler", "certain")
GITOPS = ("user", "gitops", "certain")
MAYBE_GITOPS = ("user", "gitops", "likely")


def static(*manifests: Any, version="", registered=()):
    """Suspects with these static manifests, and a connected server of this version."""
    found = Suspects(
        read_configurations([*OWN, *registered]),
        conditions=CONDITIONS,
        static=read_static(manifests),
    )
    if version:
        found.learn_server(version)
    return found


def ungiven(version):
    """Suspects for a connected server, of whose static webhooks nobody said anything."""
    found = Suspects(conditions=CONDITIONS)
    found.learn_server(version)
    return found


def fight(detection: Detection, turns=range(12)) -> Finding:
    """Two users turn replicas to and fro."""
    for turn in turns:
        user, new, old = (("gitops", 2, 5), ("autoscaler", 5, 2))[turn % 2]
        asked = update(spec(replicas=new), spec(replicas=old), base=str(turn), user=user)
        for phase in (INTENT, MUTATE, OUTCOME):
            feed(detection, phase, asked, float(turn))
    (found,) = [one for one in detection.findings() if one.detector == "spec-fight"]
    return found


def actors(found):
    return [(one.type, one.name, one.confidence.value) for one in found.actors]


def notes(found):
    return [one["note"] for one in found.evidence if "note" in one]


@pytest.mark.parametrize(
    ("settings", "because"),
    [
        ({"resources": ("pods",)}, "its rules name other resources"),
        ({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "x"}}}, "elsewhere"),
        ({"objectSelector": {"matchLabels": {"a": "b"}}}, "the object has no such label"),
        ({"matchConditions": [{"expression": "request.dryRun"}]}, "its condition is not met"),
    ],
)
def test_a_static_webhook_that_is_not_called_leaves_requesters_certain(settings, because):
    given = hook(NAME, **{"resources": ("deployments",), **settings})
    assert actors(fight(Detection(static(given, version="1.37")))) == [AUTOSCALER, GITOPS], because


def test_a_static_webhook_that_is_called_is_possible_and_its_requester_likely():
    given = hook(NAME, ("deployments",), **FOR_GITOPS)
    found = fight(Detection(static(given)))
    assert actors(found) == [AUTOSCALER, MAYBE_GITOPS, ("webhook", FULL_NAME, "possible")]


@pytest.mark.parametrize(
    ("settings", "because"),
    [
        ({"namespaceSelector": {"matchLabels": {"team": "red"}}}, "labels no review shows"),
        (
            {"matchConditions": [{"expression": "object.spec.replicas > 9"}]},
            "what it was before",
        ),
        (
            {"matchConditions": [{"expression": "authorizer.path('/').check('get').allowed()"}]},
            "who knows",
        ),
    ],
)
def test_a_static_webhook_that_may_be_called_is_possible(settings, because):
    found = fight(Detection(static(hook(NAME, ("deployments",), **settings))))
    assert ("webhook", FULL_NAME, "possible") in actors(found), because
    assert MAYBE_GITOPS in actors(found)


def stalled(suspects: Suspects):
    """A controller that reports each generation, of which the first one arrives."""
    detection = Detection(suspects)
    for turn in range(12):
        generation = {"generation": turn + 1, "resourceVersion": str(turn)}
        status = {"observedGeneration": 1, "replicas": turn}
        asked = update({"status": status}, {"status": {**status, "replicas": turn - 1}},
                       base=str(turn), subresource="status")  # fmt: skip
        for side in ("object", "oldObject"):
            asked["request"][side]["metadata"] |= generation
        for phase in (INTENT, MUTATE, OUTCOME):
            feed(detection, phase, asked, float(turn))
    (found,) = [one for one in detection.findings() if "stalled" in one.detector]
    return actors(found)


def test_a_static_webhook_for_a_status_is_named_first_where_a_field_of_status_is_concerned():
    first, (kind, _, confidence) = stalled(static(hook(NAME, ("deployments/status",))))
    assert first == ("webhook", FULL_NAME, "likely")
    assert (kind, confidence) == ("user", "possible")


@pytest.mark.parametrize(
    ("settings", "because"),
    [
        ({"resources": ("*/*",)}, "its rules say nothing of status"),
        ({"namespaceSelector": {"matchLabels": {"team": "red"}}}, "it may not be called at all"),
    ],
)
def test_the_requester_of_a_status_comes_first_where_the_static_webhook_is_doubtful(
    settings, because
):
    (kind, _, confidence), last = stalled(static(hook(NAME, **settings)))
    assert (kind, confidence) == ("user", "likely"), because
    assert last == ("webhook", FULL_NAME, "possible")


@pytest.mark.parametrize(
    ("pointer", "resource", "sets"),
    [
        ("/status", "deployments/status", True),
        ("/status/phase", "*/status", True),
        ("/status/phase", "deployments", False),
        ("/status/phase", "*/*", False),
        ("/spec/replicas", "deployments/status", False),
        ("/statuses", "deployments/status", False),
    ],
)
def test_a_webhook_that_asks_for_a_status_changes_status(pointer, resource, sets):
    suspects = static(hook(NAME, ("pods", resource)))
    assert suspects.sets(FULL_NAME, [pointer]) is sets
    assert not suspects.sets("another", [pointer])


def test_a_static_webhook_of_genguard_is_no_suspect():
    own = hook("genguard.static.k8s.io", ("deployments",), "/intent")
    assert actors(fight(Detection(static(own)))) == [AUTOSCALER, GITOPS]


def test_a_static_policy_is_a_suspect_whatever_the_cluster_has():
    given = policy(NAME, conditions=("request.userInfo.username == 'gitops'",)), binding(NAME)
    suspects = static(*given)
    suspects.learn_policies(read_policies([policy("x", apply("Object{}")), binding("x")]))
    assert [one.name for one in suspects.policies] == [NAME, "x"]
    suspects.learn_policies(())
    assert ("policy", NAME, "likely") in actors(fight(Detection(suspects)))


@pytest.mark.parametrize(
    ("version", "confidence"),
    [
        ("v1.35.9", "certain"),
        ("1.36", "likely"),
        ("v1.37.0", "likely"),
        ("v2.0.0", "likely"),
    ],
)
def test_where_a_server_may_have_static_webhooks_and_none_are_given_nobody_is_certain(
    version, confidence
):
    found = fight(Detection(ungiven(version)))
    assert {one.confidence.value for one in found.actors} == {confidence}
    assert [("--static-webhooks" in one) for one in notes(found)] == [True] * (
        confidence == "likely"
    )


def test_without_a_cluster_no_version_is_known_and_requesters_are_certain():
    found = fight(Detection(Suspects()))
    assert actors(found) == [AUTOSCALER, GITOPS]
    assert notes(found) == []


def test_where_it_is_said_that_there_are_none_all_is_as_before():
    found = fight(Detection(static(version="v1.37.0")))
    assert actors(found) == [AUTOSCALER, GITOPS]
    assert notes(found) == []


def test_a_finding_of_before_is_told_anew_once_the_version_is_known():
    suspects = Suspects()
    detection = Detection(suspects)
    assert actors(fight(detection)) == [AUTOSCALER, GITOPS]
    suspects.learn_server("1.36")
    (found,) = [one for one in detection.findings() if one.detector == "spec-fight"]
    assert {one.confidence.value for one in found.actors} == {"likely"}
    suspects.learn_server("1.35")
    (found,) = [one for one in detection.findings() if one.detector == "spec-fight"]
    assert actors(found) == [AUTOSCALER, GITOPS]


def test_a_static_webhook_is_called_again_where_it_asks_for_it():
    again = hook(NAME, reinvocationPolicy="IfNeeded")
    once = hook("once.static.k8s.io")
    called = static(again, once, registered=[hook("mmm")]).called(STATUS)
    assert called.first == ("mmm/h.example.org",)
    assert called.again == (FULL_NAME,)
    assert static(again).called(replace(STATUS, subresource="")).again == ()


def test_whose_conditions_are_slow_counts_static_webhooks():
    asked = reviewed(update(spec(replicas=1), spec(replicas=2)), INTENT).request
    assert static(hook(NAME, **FOR_GITOPS)).asks_conditions(asked)
    assert not static(hook(NAME)).asks_conditions(asked)


def test_rules_of_policies_are_matched_as_those_of_webhooks():
    given = policy(NAME, rules=[rule("pods")]), binding(NAME)
    assert actors(fight(Detection(static(*given)))) == [AUTOSCALER, GITOPS]

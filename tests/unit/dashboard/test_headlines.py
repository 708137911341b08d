"""Headlines say who does what to which object, and no more than is sure."""

import pytest

from genguard.detection.detectors import ALL
from genguard.detection.finding import Actor, Confidence, FoundObject
from tests.unit.alerts.findings import finding, on
from webhook.dashboard.headlines import (
    _PHRASES,
    culprit,
    group_headline,
    headline,
    kinds,
    object_name,
    predicate,
)

KIND_OF = kinds([("example.org", "widgets", "Widget")])
CONTROLLER = "system:serviceaccount:kube-system:deployment-controller"


def actor(name: str, confidence: Confidence = Confidence.CERTAIN, sort: str = "webhook") -> Actor:
    return Actor(sort, name, "", confidence)


def test_each_detector_has_words_of_its_own():
    assert _PHRASES.keys() == {one.name for one in ALL}
    for phrase in _PHRASES.values():
        for verb in (phrase.one, phrase.several):
            assert f"{verb} {phrase.what}".count("{}") == 1


@pytest.mark.parametrize(
    ("actors", "words"),
    [
        ((actor("old/a.example.org"),), "old clears"),
        ((actor(CONTROLLER, sort="user"),), "deployment-controller clears"),
        ((actor("alice@example.org", sort="user"),), "alice@example.org clears"),
        ((actor("old/a", Confidence.LIKELY),), "old probably clears"),
        ((actor("old/a", Confidence.POSSIBLE),), "old possibly clears"),
        ((actor("old/a"), actor("bob", sort="user")), "bob and old clear"),
        ((actor("old/a"), actor("old/b")), "old clears"),
        ((actor("b/a", Confidence.POSSIBLE), actor("a/b", Confidence.POSSIBLE)), "a or b clears"),
        ((actor("old/a"), actor("new/a", Confidence.POSSIBLE)), "old clears"),
        (tuple(actor(f"{one}/x") for one in "dcba"), "a, b and 2 more clear"),
        ((), "Somebody clears"),
    ],
)
def test_who_does_it_is_named_as_surely_as_it_is_known(actors, words):
    found = headline(finding(actors=actors), KIND_OF)
    assert found == f"{words} observedGeneration of Deployment shop/web"


@pytest.mark.parametrize(
    ("where", "name"),
    [
        (FoundObject("apps", "v1", "deployments", "shop", "web", ""), "Deployment shop/web"),
        (FoundObject("", "v1", "nodes", "", "node-1", ""), "Node node-1"),
        (FoundObject("example.org", "v1", "widgets", "shop", "one", ""), "Widget shop/one"),
        (FoundObject("example.org", "v1", "gadgets", "shop", "one", ""), "gadgets shop/one"),
        (FoundObject("", "v1", "pods", "shop", "", "uid-7"), "Pod shop/uid-7"),
    ],
)
def test_an_object_is_named_by_its_kind_where_it_is_known(where, name):
    assert object_name(where, KIND_OF) == name


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (
            [finding(object=on(name)) for name in ("web", "cart", "checkout")],
            "old-operator clears observedGeneration of 3 Deployments",
        ),
        (
            [finding(object=on("web")), finding(object=on("cart"), detector="status-clobbered")],
            "old-operator breaks 2 Deployments",
        ),
        (
            [finding(), finding(detector="status-clobbered")],
            "old-operator breaks Deployment shop/web",
        ),
        (
            [
                finding(object=on("web")),
                finding(object=FoundObject("", "v1", "pods", "shop", "web-1", "p")),
            ],
            "old-operator clears observedGeneration of 1 Deployment and 1 Pod",
        ),
    ],
)
def test_a_group_says_what_one_culprit_does_to_all_of_them(found, words):
    assert group_headline(found, KIND_OF) == words


def test_braces_in_a_name_are_part_of_the_name():
    found = finding(actors=(actor("{0}/a"),), object=on("{web}"))
    assert headline(found, KIND_OF) == "{0} clears observedGeneration of Deployment shop/{web}"


def test_beneath_the_name_of_the_culprit_a_row_does_not_repeat_it():
    assert predicate(finding(), KIND_OF) == "clears observedGeneration of Deployment shop/web"
    assert culprit(finding(actors=())).is_known is False

"""Headlines say who does what to which object, and no more than is sure."""

from genguard.detection.finding import Actor, Confidence, Finding, FoundObject
from genguard.detection.questions import FINDINGS
from genguard.detection.sample import ShownField, ShownValue, WriteDiff
from tests.cases_loader import table
from tests.unit.alerts.findings import finding, on
from webhook.dashboard.headlines import (
    NOBODY,
    culprit,
    group_headline,
    happening,
    headline,
    kinds,
    object_name,
    predicate,
)

KIND_OF = kinds([("example.org", "widgets", "Widget")])


def actor(name: str, level=Confidence.CERTAIN, sort: str = "webhook", manager: str = "") -> Actor:
    return Actor(sort, name, manager, level)


def test_each_detector_has_words_of_its_own():
    for one in FINDINGS.values():
        for actors in ((actor("a/x"),), (actor("a/x"), actor("b/x"))):
            said = headline(finding(detector=one.name, actors=actors), KIND_OF)
            assert said.count("Deployment shop/web") == 1, said
            assert "[" not in said, said


@table("dashboard/headlines.yaml", "actors", "words")
def test_who_does_it_is_named_as_surely_as_it_is_known(case):
    actors = (one.split() for one in case["actors"])
    known = tuple(
        actor(name, Confidence(level), sort, *more) for sort, name, level, *more in actors
    )
    found = headline(finding(actors=known), KIND_OF)
    assert found == f"{case['words']} observedGeneration of Deployment shop/web", case.because


@table("dashboard/names.yaml", "of", "name")
def test_an_object_is_named_by_its_kind_where_it_is_known(case):
    group, *where = case["of"]
    found = FoundObject(group, "v1", *where)
    assert object_name(found, KIND_OF) == case["name"], case.because


def said(name: str, detector: str = "observed-generation-cleared") -> Finding:
    pod = FoundObject("", "v1", "pods", "shop", name, "p")
    return finding(object=pod if "/" in name else on(name), detector=detector)


@table("dashboard/groups.yaml", "found", "words")
def test_a_group_says_what_one_culprit_does_to_all_of_them(case):
    found = [said(*one.split()) for one in case["found"]]
    assert group_headline(found, KIND_OF) == case["words"], case.because


def test_braces_in_a_name_are_part_of_the_name():
    found = finding(actors=(actor("{0}/a"),), object=on("{web}"))
    assert headline(found, KIND_OF) == "{0} clears observedGeneration of Deployment shop/{web}"


def test_beneath_the_name_of_the_culprit_a_row_does_not_repeat_it():
    assert predicate(finding(), KIND_OF) == "clears observedGeneration of Deployment shop/web"
    assert culprit(finding(actors=())).name == NOBODY


def value(text: object) -> ShownValue | None:
    if text == "absent":
        return ShownValue(absent=True)
    return None if text is None else ShownValue(value=text)


def wrote(user: str, *values: object, path: str = "/spec/replicas") -> WriteDiff:
    """One write of one field: its value before, asked for, left and stored."""
    field = path[1:].replace("/", ".")
    return WriteDiff(
        "2026-01-02T03:04:05Z", user, "", (ShownField(field, path, *map(value, values)),)
    )


HPA, ARGO = actor("hpa", sort="user"), actor("argocd", sort="user")
FOUGHT = {"detector": "spec-fight", "paths": ("/spec/replicas",), "actors": (HPA, ARGO)}


def test_a_fight_over_one_field_names_the_field():
    one = headline(finding(**FOUGHT), KIND_OF)
    assert one == "argocd and hpa fight over spec.replicas of Deployment shop/web"
    many = headline(finding(**{**FOUGHT, "paths": ("/spec/a", "/spec/b")}), KIND_OF)
    assert many == "argocd and hpa fight over the spec of Deployment shop/web"


def test_a_fight_shows_both_values_and_whose_each_is():
    found = happening(finding(**FOUGHT, diff=wrote("hpa", 3, 5, 5, 5)))
    assert (found.field, found.values) == ("spec.replicas", "3 ⇄ 5")
    assert [(one.name, one.does, one.value.text) for one in found.sides] == [
        ("hpa", "asks for", "5"),
        ("argocd", "asks for", "3"),
    ]


def test_of_three_in_a_fight_nobody_knows_whose_the_value_before_was():
    actors = (HPA, ARGO, actor("bob", sort="user"))
    found = happening(finding(**{**FOUGHT, "actors": actors}, diff=wrote("hpa", 3, 5, 5, 5)))
    assert [one.value and one.value.text for one in found.sides] == ["5", None, None]


def test_what_a_webhook_undoes_is_shown_beside_who_asked_for_it():
    path = "/status/observedGeneration"
    diff = wrote("controller", 4, 5, "absent", 5, path=path)
    found = happening(finding(diff=diff))
    assert found.values == "5 → absent → 5"
    (asked, left) = found.sides
    assert (asked.name, asked.actor, asked.value.text) == ("controller", None, "5")
    assert (left.name, left.does, left.value.text) == ("old-operator", "makes it", "absent")
